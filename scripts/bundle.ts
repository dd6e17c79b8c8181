import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build, type Plugin } from 'esbuild'

const ROOT = join(import.meta.dirname, '..')
const OUT = join(ROOT, 'dist/cert-service')

// Code that was compiled before is only looked for from here on, so the service is imported second.
const LAUNCHER = `import { enableCompileCache } from 'node:module'
enableCompileCache({ directory: import.meta.dirname + '/cache', portable: true })
await import('./service.js')
`

/**
 * Takes Node's own modules as `require` does. A static import makes Node read every export they have,
 * and one of node:http's is a whole HTTP client.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy-builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ path }) =>
      isBuiltin(path) ? { path, namespace: 'builtin' } : undefined,
    )
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule('${path}')`,
    }))
  },
}

const WARM_UP_CONFIG = `server: { port: 0 }
metrics: { port: 0 }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: compiles-only-and-guards-nothing } }
`

/**
 * Makes dist/cert-service: the service in a few files that need nothing but Node, and the compile
 * cache that makes it start fast. Gives the file to run. The cache serves the user id that made it.
 */
export async function bundle(): Promise<string> {
  await rm(OUT, { recursive: true, force: true })
  await build({
    absWorkingDir: ROOT,
    entryPoints: { service: 'services/cert-service/src/main.ts' },
    outdir: OUT,
    bundle: true,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    format: 'esm',
    platform: 'node',
    target: 'node24',
    conditions: ['@gatehouse/source'],
    legalComments: 'linked',
    plugins: [lazyBuiltins],
    logLevel: 'warning',
  })
  const main = join(OUT, 'main.js')
  await writeFile(join(OUT, 'package.json'), '{ "type": "module" }\n')
  await writeFile(main, LAUNCHER)
  await fillCache(main)
  return main
}

/** Runs the service once, to where it listens, and lets it end: Node then writes what it compiled. */
async function fillCache(main: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bundle-'))
  const config = join(folder, 'config.yaml')
  await writeFile(config, WARM_UP_CONFIG)
  const child = spawn(process.execPath, [main, 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.on('data', (lines) => {
    if (String(lines).includes('"ready"')) child.kill('SIGTERM')
  })
  const [code] = await once(child, 'exit')
  await rm(folder, { recursive: true })
  if (code !== 0) throw new Error(`the bundle ended with ${code} when it was tried`)
}

if (import.meta.main) console.log(await bundle())
