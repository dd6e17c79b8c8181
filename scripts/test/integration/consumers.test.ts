// Installs the tarballs of the libraries on each Node that Fastify 5 supports, and runs apps of others there.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { keysOf, startProvider } from '../../../packages/auth-core/test/e2e/provider.ts'
import { assertion, assertionClaims, signingKey } from '../../../packages/auth-core/test/kit.ts'
import { ROOT, readDocument } from '../markdown.ts'

const PNPM = join(ROOT, 'scripts/pnpm/node_modules/.bin/pnpm')
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const { catalog } = parse(read('pnpm-workspace.yaml'))
const { engines, devDependencies } = JSON.parse(read('packages/auth-core/package.json'))
/** The oldest that the plugin admits, which says `5.x`. */
const OLDEST_FASTIFY = '5.0.0'
/** Another one to try in place of those below, such as the next major version. */
const { GATEHOUSE_FASTIFY } = process.env

interface Try {
  readonly version: string
  readonly types?: string
  readonly fastify?: string | undefined
  /** Whether it gets the lowest versions that the libraries depend on, in place of the newest. */
  readonly lowest?: boolean
}

/** The oldest of each range in `engines`, and the newest of each line with the types that its users have. */
const NODES: readonly Try[] = [
  { version: '20.20.2', types: '20.19.43', fastify: OLDEST_FASTIFY },
  { version: '20.19.0' },
  { version: '20.20.2', types: '20.19.43' },
  { version: '22.12.0' },
  { version: '22.23.3', types: '22.20.5' },
  { version: '24.21.0', types: '24.19.2' },
  { version: '24.21.0', lowest: true },
  { version: '26.10.0', types: '26.6.6' },
]
const LIBRARIES = ['net', 'profile', 'auth-core']
/** The lowest version of what each library depends on. */
const LOWEST: Record<string, Record<string, string>> = Object.fromEntries(
  LIBRARIES.map((library) => {
    const { name, dependencies } = JSON.parse(read(`packages/${library}/package.json`))
    const ranges = Object.entries<string>(dependencies)
      .filter(([, range]) => range !== 'workspace:^')
      .map(([name, range]) => [name, (range === 'catalog:' ? catalog[name] : range).slice(1)])
    return [name, Object.fromEntries(ranges)]
  }),
)
const API_KEY = 'sixteen-characters-or-more'

/** Runs a command with this Node first on the path, and gives what it prints. */
async function run(node: string, cwd: string, command: string, ...args: string[]) {
  const env = { ...process.env, PATH: `${node}:${process.env.PATH}`, NODE_OPTIONS: '' }
  return promisify(execFile)(command, args, { cwd, env }).catch(
    ({ stdout, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`)
    },
  )
}

/** The folder of a Node, which npm brings. */
async function nodeFolder(version: string): Promise<string> {
  const name = `node-linux-${process.arch}`
  const home = join(ROOT, 'node_modules/.cache/nodes', version)
  const folder = join(home, 'node_modules', name, 'bin')
  if (!existsSync(join(folder, 'node'))) {
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'package.json'), '{ "private": true }')
    await run('', home, 'npm', 'install', '--no-audit', '--no-fund', `${name}@${version}`)
  }
  return folder
}

async function pack(into: string): Promise<string[]> {
  for (const name of LIBRARIES) {
    const folder = join(ROOT, 'packages', name)
    rmSync(join(folder, 'dist'), { recursive: true, force: true })
    await run('', folder, PNPM, 'pack', '--pack-destination', into)
  }
  return globSync('gatehouse-*.tgz', { cwd: into }).map((file) => join(into, file))
}

/** A portal as forward-auth has it: the keys of its assertions, and the assertion of a person. */
async function startPortal(t: Test) {
  const key = signingKey('ES256', 'portal-1')
  const server = createServer((request, response) => {
    const isKeys = request.url?.endsWith('/jwks.json')
    const metadata = { issuer, jwks_uri: `${issuer}/jwks.json` }
    response.end(JSON.stringify(isKeys ? { keys: [key.jwk] } : metadata))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}/portals/main`
  const assert = () => {
    const now = Math.floor(Date.now() / 1_000) * 1_000
    return assertion(key, { ...assertionClaims(now), iss: issuer })
  }
  return { issuer, assert }
}

/** Starts an app, and gives its origin when it listens. */
async function startApp(t: Test, node: string, cwd: string, file: string, env: object) {
  const child = spawn(join(node, 'node'), [file], {
    cwd,
    env: { ...process.env, NODE_OPTIONS: '', API_KEY, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaints = ''
  child.stderr.on('data', (text) => (complaints += text))
  const exited = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  let port: string | undefined
  for await (const line of createInterface(child.stdout)) {
    // Fastify logs where it listens; the apps here print the port alone.
    port = /^\d+$|(?<=http:\/\/127\.0\.0\.1:)\d+/.exec(line)?.[0]
    if (port) break
  }
  child.stdout.resume()
  if (!port) throw new Error(`${file} ended: ${complaints}`)
  return { origin: `http://127.0.0.1:${port}`, complaints: () => complaints }
}

t.test('the oldest Node of each range in engines is tried', async (t) => {
  for (const name of LIBRARIES)
    t.equal(JSON.parse(read(`packages/${name}/package.json`)).engines.node, engines.node, name)
  for (const [, oldest] of engines.node.matchAll(/(\d+\.\d+\.\d+)/g))
    t.ok(
      NODES.some(({ version }) => version === oldest),
      oldest,
    )
  const lines = new Set(NODES.map(({ version }) => version.split('.')[0]))
  t.strictSame([...lines], ['20', '22', '24', '26'])
})

t.test('apps of others', async (t) => {
  const tarballs = await pack(t.testdir())
  const provider = await startProvider(t)
  provider.use(keysOf('1'))
  const token = await provider.getToken('ES256', 'reports:read')
  const portal = await startPortal(t)

  const key = { authorization: `APIKey ${API_KEY}` }
  const requests = (): [string, Record<string, string>, number, object][] => [
    ['GET /jobs', {}, 401, { code: 'AUTH_CREDENTIALS_MISSING' }],
    ['GET /jobs', { authorization: 'APIKey wrong' }, 401, { code: 'AUTH_KEY_INVALID' }],
    ['GET /jobs', key, 200, { method: 'psk', subject: 'backup' }],
    ['DELETE /jobs', key, 403, { code: 'AUTH_SCOPE_MISSING' }],
    ['GET /jobs', bearer(token), 200, { method: 'jwt', subject: 'ES256' }],
    ['GET /jobs', bearer(spoil(token)), 401, { code: 'AUTH_TOKEN_SIGNATURE' }],
    ['GET /', seen(portal.assert()), 200, { name: 'Ada Lovelace', staff: true }],
    ['GET /', key, 200, { name: null, staff: null }],
    ['GET /', {}, 401, { code: 'AUTH_CREDENTIALS_MISSING' }],
    ['GET /profile?sub=7&groups=staff&groups=ops', {}, 200, { id: '7', staff: true }],
    ['GET /profile?sub=7&groups=guests&groups=ops', {}, 200, { id: '7', staff: false }],
    ['GET /issuer?max=100000', {}, 200, { issuer: provider.issuer }],
    ['GET /issuer?max=10', {}, 200, { code: 'NET_FETCH_TOO_LARGE' }],
  ]

  const next = { version: '24.21.0', types: '24.19.2', fastify: GATEHOUSE_FASTIFY }
  const tries: readonly Try[] = GATEHOUSE_FASTIFY ? [next] : NODES
  for (const { version, types, fastify = catalog.fastify, lowest = false } of tries)
    await t.test(`Node ${version}, Fastify ${fastify}${lowest ? ', lowest' : ''}`, async (t) => {
      const node = await nodeFolder(version)
      t.equal((await run(node, '.', 'node', '--version')).stdout.trim(), `v${version}`)
      const manifest = { private: true, type: 'module', ...(lowest && { overrides: LOWEST }) }
      const cwd = t.testdir({ 'package.json': JSON.stringify(manifest) })
      cpSync(join(ROOT, 'scripts/test/integration/consumers'), cwd, { recursive: true })
      await installAsTheGuideSays(t, node, cwd, tarballs, fastify)
      if (lowest)
        for (const [library, versions] of Object.entries(LOWEST))
          for (const [name, version] of Object.entries(versions))
            t.equal(versionOf(cwd, library, name), version, `${library}: ${name}`)

      const apps = ['app.mjs', 'app.cjs']
      if (types) {
        apps.push(await compile(t, node, cwd, types))
        const { stdout } = await run(node, cwd, 'node', '--test', 'out/examples/in-tests.js')
        t.match(stdout, /^(?:#|ℹ) pass 1$/m, 'the test of an app')
      }
      for (const file of apps)
        await t.test(file, async (t) => {
          const env = { ISSUER: provider.issuer, PORTAL: portal.issuer }
          const { origin, complaints } = await startApp(t, node, cwd, file, env)
          for (const [request, headers, status, body] of requests()) {
            const [method = '', path] = request.split(' ')
            const answer = await fetch(origin + path, { method, headers })
            t.match({ status: answer.status, body: await answer.json() }, { status, body }, request)
          }
          // Node 22.12 alone still calls `require` of ES modules experimental.
          const expected = version === '22.12.0' && file.endsWith('.cjs') ? /^.*Experimental/ : /^$/
          t.match(complaints(), expected, 'no warning')
        })

      await t.test('the server of the guide', async (t) => {
        const { blocks } = readDocument('docs/auth-core.md')
        const { text = '' } = blocks.find(({ info }) => info === 'js server.mjs') ?? {}
        writeFileSync(
          join(cwd, 'server.mjs'),
          text.replace('port: 3000', "port: 0, host: '127.0.0.1'"),
        )
        const { origin } = await startApp(t, node, cwd, 'server.mjs', {})
        t.equal((await fetch(`${origin}/jobs`)).status, 401)
        t.strictSame(await (await fetch(`${origin}/jobs`, { headers: key })).json(), {
          readBy: 'default',
        })
      })
    })
})

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const seen = (assertion: string) => ({ 'x-gatehouse-assertion': assertion })
const spoil = (token: string) =>
  token.replace(/\.(.)([^.]*)$/, (_, first, rest) => `.${first === 'A' ? 'B' : 'A'}${rest}`)

/** First what the libraries bring, which npm would refuse if it asked for another Node, then the rest. */
async function installAsTheGuideSays(
  t: Test,
  node: string,
  cwd: string,
  tarballs: string[],
  fastify: string,
) {
  const install = ['install', '--no-audit', '--no-fund', ...tarballs]
  const ours = await run(node, cwd, 'npm', ...install, '--engine-strict', '--legacy-peer-deps')
  t.notMatch(ours.stdout + ours.stderr, /warn/i, 'npm warns of nothing')
  const auth = `@fastify/auth@${devDependencies['@fastify/auth']}`
  await run(node, cwd, 'npm', ...install, auth, `fastify@${fastify}`)
  const installed = JSON.parse(readFileSync(join(cwd, 'node_modules/fastify/package.json'), 'utf8'))
  t.equal(installed.version, fastify)
}

/** The version of a package that a library gets. */
function versionOf(cwd: string, library: string, name: string): string {
  const { resolve } = createRequire(join(cwd, 'node_modules', library, 'package.json'))
  const folder = resolve.paths(name)?.find((folder) => existsSync(join(folder, name)))
  return JSON.parse(readFileSync(join(folder ?? '', name, 'package.json'), 'utf8')).version
}

/** Compiles the app as strictly as TypeScript can, with what the guide and the examples show. */
async function compile(t: Test, node: string, cwd: string, types: string): Promise<string> {
  const tools = [`@types/node@${types}`, 'typescript@5.9.3', 'typescript-7@npm:typescript@7.0.2']
  const plugins = ['@fastify/cookie', '@fastify/jwt'].map(
    (name) => `${name}@${devDependencies[name]}`,
  )
  await run(node, cwd, 'npm', 'install', '--no-audit', '--no-fund', '-D', ...tools, ...plugins)
  const { blocks } = readDocument('docs/auth-core.md')
  writeFileSync(
    join(cwd, 'server.ts'),
    blocks.find(({ info }) => info === 'ts server.ts')?.text ?? '',
  )
  cpSync(join(ROOT, 'packages/auth-core/examples'), join(cwd, 'examples'), { recursive: true })
  const compilerOptions = {
    ...{ module: 'nodenext', target: 'es2023', lib: ['es2023'], types: ['node'], outDir: 'out' },
    ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    ...{ skipLibCheck: false, rootDir: '.' },
  }
  const files = ['app.ts', 'server.ts', ...globSync('examples/*.ts', { cwd })]
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  for (const name of ['typescript', 'typescript-7']) {
    rmSync(join(cwd, 'out'), { recursive: true, force: true })
    await run(node, cwd, 'node', `node_modules/${name}/bin/tsc`, '-p', '.')
    t.ok(existsSync(join(cwd, 'out/app.js')), name)
  }
  return 'out/app.js'
}
