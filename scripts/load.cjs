// lib/load.cjs of a bundle. Node keeps what it compiled of lib when the bundle was made in the folder cache.
const { enableCompileCache } = require('node:module')

enableCompileCache({ directory: `${__dirname}/../cache`, portable: true })
void import('./main.mjs')
