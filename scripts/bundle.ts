import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, constants, copyFile, glob, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type BuildOptions, build, type Plugin } from 'esbuild'
import { inventory } from './release/inventory.ts'

const ROOT = join(import.meta.dirname, '..')

/** The programs in images: the entry point of each, and a configuration to try a service with. */
const PROGRAMS = {
  'cert-service': {
    entry: './services/cert-service/src/main.ts',
    config: `server: { port: 0 }
metrics: { port: 0 }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: compiles-only-and-guards-nothing } }
`,
  },
  'forward-auth': {
    entry: './services/forward-auth/src/main.ts',
    config: `server: { port: 0 }
metrics: { port: 0 }
storage: { path: data }
domains: [{ domain: example.com }]
portals: [{ name: main, providers: [{ type: github, name: none, clientId: none, clientSecret: none, allow: anyone }] }]
`,
  },
  'demo-idp': { entry: './examples/demo-idp/src/main.ts', config: undefined },
  apps: { entry: './examples/apps/src/main.ts', config: undefined },
}

export type Program = keyof typeof PROGRAMS

/**
 * Has node:http loaded by `require`: for an `import`, Node reads every export, and one of them loads
 * the whole of Node's own undici, which takes as long as a start of Node.
 */
const REQUIRED_HTTP: Plugin = {
  name: 'required-http',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:http$/ }, ({ path, kind }) =>
      kind === 'import-statement' ? { path, namespace: 'required' } : undefined,
    )
    onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = require('${path}')`,
    }))
  },
}

const OPTIONS: BuildOptions = {
  bundle: true,
  // What is imported dynamically becomes a file of its own, which only those who need it load.
  format: 'esm',
  splitting: true,
  outExtension: { '.js': '.mjs' },
  // Names stay, so that a stack says where an error is from. Source maps would be two thirds of the bytes.
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'linked',
  platform: 'node',
  target: 'node24',
  // The ES modules of packages that have both: their named exports can be imported dynamically.
  mainFields: ['module', 'main'],
  conditions: ['@gatehouse/source'],
  // CommonJS packages expect these names.
  banner: {
    js: "import { createRequire as requireIn } from 'node:module'; const require = requireIn(import.meta.url); const __dirname = import.meta.dirname;",
  },
  // Of packages for other apps, Fastify is a peer, which an installation for production leaves out there.
  nodePaths: [join(ROOT, 'services/cert-service/node_modules')],
  logLevel: 'warning',
}

/**
 * Makes dist/<name>: main.js, the program as modules in lib that need nothing but Node, what they
 * contain, and of a service also the files of its documentation page and Node's compile cache.
 * Returns the file to run.
 */
export async function bundle(name: Program): Promise<string> {
  const { config } = PROGRAMS[name]
  const out = join(ROOT, 'dist', name)
  await rm(out, { recursive: true, force: true })
  const main = await bundleToShip(out, name)
  if (config !== undefined) await warmUp(out, config)
  return main
}

/** Makes the same in another folder and without the cache, which is of one version of Node. */
export async function bundleToShip(out: string, name: Program): Promise<string> {
  const main = await bundleInto(out, name, inventory(out))
  await copyFile(join(ROOT, 'LICENSE'), join(out, 'LICENSE'))
  return main
}

/** Makes the program alone, of sources that plugins may change. */
export async function bundleInto(
  out: string,
  name: Program,
  plugins: readonly Plugin[] = [],
): Promise<string> {
  const { entry, config } = PROGRAMS[name]
  await build({
    ...OPTIONS,
    // The package that what was bundled is said to be of.
    absWorkingDir: join(ROOT, entry, '../..'),
    plugins: [REQUIRED_HTTP, ...plugins],
    entryPoints: [{ in: join(ROOT, entry), out: 'main' }],
    outdir: join(out, 'lib'),
    // oidc-provider uses the names of its classes.
    keepNames: config === undefined,
  })
  await copyFile(join(ROOT, 'scripts/launch.cjs'), join(out, 'main.js'))
  await copyFile(join(ROOT, 'scripts/load.cjs'), join(out, 'lib/load.cjs'))
  await writeFile(join(out, 'package.json'), '{ "type": "commonjs" }\n')
  // What modules read beside themselves.
  for await (const file of glob(`{packages/*,services/${name}}/src/**/*.{css,proto}`, {
    cwd: ROOT,
  }))
    await copyFile(join(ROOT, file), join(out, 'lib', basename(file)), constants.COPYFILE_EXCL)
  if (config === undefined) return join(out, 'main.js')
  const schema = `${name}.schema.json`
  await copyFile(join(ROOT, 'docs/reference', schema), join(out, schema))
  return join(out, 'main.js')
}

/** Starts the service once, so that Node fills its compile cache, and stops it when it is ready. */
async function warmUp(out: string, config: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bundle-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, config)
  const args = ['main.js', 'serve', '--config', file]
  // A cache that the environment names would be filled instead.
  const { NODE_COMPILE_CACHE, ...env } = process.env
  const child = spawn(process.execPath, args, {
    cwd: out,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.on('data', (lines) => {
    if (String(lines).includes('"ready"')) child.kill('SIGTERM')
  })
  const [code] = await once(child, 'exit')
  await rm(folder, { recursive: true })
  if (code !== 0) throw new Error(`${out} ended with ${code} when it was tried`)
  // Node makes them readable for this user only, and in images they belong to root.
  for (const cached of await readdir(join(out, 'cache'), { recursive: true }))
    await chmod(join(out, 'cache', cached), 0o755)
}

if (import.meta.main)
  for (const name of Object.keys(PROGRAMS) as Program[]) console.log(await bundle(name))
