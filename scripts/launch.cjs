#!/usr/bin/env node
// main.js of a bundle. ES2015, so that even a Node of long ago gets as far as the line that says what is missing.
const found = process.versions.node
const numbers = found.split('.').map(Number)
if (numbers[0] < 24 || (numbers[0] === 24 && numbers[1] < 15)) {
  const manifest = require('./package.json')
  // Only the npm package has a bin.
  const npx = manifest.bin
    ? ` run "npx -p node@24 -p ${manifest.name} ${Object.keys(manifest.bin)[0]}",`
    : ''
  const ways = `get it from https://nodejs.org/en/download,${npx} or use the Docker image`
  console.error(`Gatehouse needs Node 24.15 or newer, and this is ${found}: ${ways}.`)
  process.exit(1)
}
require('./lib/load.cjs')
