// main.js of a bundle. Node keeps what it compiled of lib when the bundle was made in the folder cache.
const { enableCompileCache } = require('node:module')

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 15)) {
  console.error(`Gatehouse needs Node >= 24.15, and this is ${process.versions.node}.`)
  process.exit(1)
}
enableCompileCache({ directory: `${__dirname}/cache`, portable: true })
void import('./lib/main.mjs')
