import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BuildOptions, build, type Plugin } from 'esbuild'

const ROOT = join(import.meta.dirname, '..')

/** What images hold: where each begins, and the configuration with which a service is tried. */
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

/** Runs main.js, and keeps what V8 compiled of the service until it ended. */
const WARM_UP = `const script = require('./main.js')
process.once('exit', () =>
  require('node:fs').writeFileSync('service.cache', script.createCachedData()),
)`

/** What these load and nothing here uses, as HTTP/2 servers: it is a tenth of the time to start. */
const leftOut: Plugin = {
  name: 'left-out',
  setup({ onResolve, onLoad }) {
    onResolve(
      {
        filter: /^@opentelemetry\/api$|^\.\/lib\/(pushgateway|cluster)$|^jwk-to-pem$|^node:http2$/,
      },
      ({ path, importer }) =>
        /prom-client|get-jwks|fastify\/lib\/server/.test(importer)
          ? { path, namespace: 'left-out' }
          : undefined,
    )
    onLoad({ filter: /./, namespace: 'left-out' }, () => ({
      contents: 'exports.trace = { getSpan() {} }; exports.context = { active() {} }',
    }))
  },
}

const OPEN_TELEMETRY = join(ROOT, 'packages/service-kit/src/telemetry/otel/sdk.ts')

/** What is loaded only when a variable asks for it is a file of its own, which no other start reads. */
const openTelemetryApart: Plugin = {
  name: 'open-telemetry-apart',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\/otel\/sdk\.ts$/ }, () => ({
      path: './open-telemetry.js',
      external: true,
    }))
  },
}

const OPTIONS: BuildOptions = {
  bundle: true,
  minify: true,
  sourcemap: 'linked',
  legalComments: 'linked',
  // A script, as V8 takes no compiled code for modules from outside; and scripts have `require` alone.
  format: 'cjs',
  supported: { 'dynamic-import': false },
  platform: 'node',
  target: 'node24',
  conditions: ['@gatehouse/source'],
  plugins: [leftOut, openTelemetryApart],
  logLevel: 'warning',
}

/**
 * Makes dist/<name>: the program as one file that needs nothing but Node, and of a service also what V8
 * compiled of it, which halves the time to start. Gives the file to run.
 */
export async function bundle(name: Program): Promise<string> {
  const { entry, config } = PROGRAMS[name]
  const out = join(ROOT, 'dist', name)
  await rm(out, { recursive: true, force: true })
  await build({
    ...OPTIONS,
    // An entry of its own, as the first line of main.ts is for shells.
    stdin: { contents: `import '${entry}'`, resolveDir: ROOT },
    outfile: join(out, 'service.js'),
    // oidc-provider goes by the names of its classes; in services they would cost time.
    keepNames: config === undefined,
  })
  if (config !== undefined)
    await build({
      ...OPTIONS,
      entryPoints: [OPEN_TELEMETRY],
      outfile: join(out, 'open-telemetry.js'),
    })
  await writeFile(join(out, 'package.json'), '{ "type": "commonjs" }\n')
  await copyFile(join(ROOT, 'scripts/launch.cjs'), join(out, 'main.js'))
  if (config !== undefined) await warmUp(out, config)
  return join(out, 'main.js')
}

/** Starts the service once, and ends it as soon as it is ready. */
async function warmUp(out: string, config: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-bundle-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, config)
  const args = ['-e', WARM_UP, 'main.js', 'serve', '--config', file]
  const child = spawn(process.execPath, args, { cwd: out, stdio: ['ignore', 'pipe', 'inherit'] })
  child.stdout.on('data', (lines) => {
    if (String(lines).includes('"ready"')) child.kill('SIGTERM')
  })
  const [code] = await once(child, 'exit')
  await rm(folder, { recursive: true })
  if (code !== 0) throw new Error(`${out} ended with ${code} when it was tried`)
}

if (import.meta.main)
  for (const name of Object.keys(PROGRAMS) as Program[]) console.log(await bundle(name))
