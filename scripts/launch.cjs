// main.js of a bundle. Runs service.js by what V8 compiled of it when the bundle was made: Node's own
// compile cache would keep the outermost code, and functions are most of what starting takes. A cache
// that does not fit (another Node, another service.js) is passed over by V8.
const { existsSync, readFileSync } = require('node:fs')
const { Script } = require('node:vm')

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 15)) {
  console.error(`Gatehouse needs Node >= 24.15, and this is ${process.versions.node}.`)
  process.exit(1)
}

const filename = `${__dirname}/service.js`
const cache = `${__dirname}/service.cache`
const source = `(function (require, module, exports) {\n${readFileSync(filename, 'utf8')}\n})`
const script = new Script(source, {
  filename,
  lineOffset: -1,
  cachedData: existsSync(cache) ? readFileSync(cache) : undefined,
})
script.runInThisContext()(require, module, exports)

// For whoever makes the cache.
module.exports = script
