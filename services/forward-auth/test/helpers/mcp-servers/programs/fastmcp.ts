import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { NOTES } from './notes.ts'

/** A server of FastMCP for TypeScript: its arguments are the folder of its package, a port, and `stateless` or `sessions`. */
const [folder = '', port, mode] = process.argv.slice(2)
const file = createRequire(join(folder, 'package.json')).resolve('fastmcp')
const { FastMCP } = await import(pathToFileURL(file).href)
const server = new FastMCP({ name: 'notes', version: '1.0.0' })
for (const [name, run] of Object.entries(NOTES))
  server.addTool({ name, description: name, execute: async () => run() })
await server.start({
  transportType: 'httpStream',
  httpStream: { port: Number(port), stateless: mode === 'stateless' },
})
