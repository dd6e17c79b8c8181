import { execFileSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'

/** Packs every package that others may use, installs the tarballs in an empty project, and uses them as a stranger would. */
const root = join(import.meta.dirname, '../../..')
const bin = join(root, 'node_modules/.bin')
const PNPM = join(root, 'scripts/pnpm/node_modules/.bin/pnpm')
const manifests = globSync('packages/*/package.json', { cwd: root })
  .map((file) => ({
    folder: join(root, file, '..'),
    ...JSON.parse(readFileSync(join(root, file), 'utf8')),
  }))
  .filter((manifest) => !manifest.private)

function run(cwd: string, command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}${stderr}`)
  }
}

/** What the snippets of the README take for granted. */
const GIVEN = `
import fastifyAuth from '@fastify/auth'
import auth from '@gatehouse/auth-core'
import Fastify, { type FastifyRequest } from 'fastify'
const app = Fastify()
await app.register(fastifyAuth)
await app.register(auth, { psk: { key: 'sixteen-characters-or-more' } })
declare const secret: Uint8Array
declare const token: string
declare function hasSession(request: FastifyRequest): Promise<void>
declare const sessions: Map<string, import('@gatehouse/auth-core').TokenCaller>
declare const options: import('@gatehouse/auth-core').AuthOptions
declare function askTheNextOne(request: FastifyRequest): unknown
declare function filesOf(caller: import('@gatehouse/auth-core').Caller): unknown
void [app, secret, token, hasSession, sessions, options, askTheNextOne, filesOf]
`

t.test('packed packages', async (t) => {
  const dir = t.testdir()
  const tarballs = new Map<string, string>()
  for (const { name, folder } of manifests) {
    // Packing builds first, also where an earlier build left its notes but not its files.
    rmSync(join(folder, 'dist'), { recursive: true, force: true })
    run(folder, PNPM, 'pack', '--pack-destination', dir)
    const file = globSync(`${name.replace('@', '').replace('/', '-')}-*.tgz`, { cwd: dir })[0]
    tarballs.set(name, join(dir, file as string))
  }

  for (const [name, tarball] of tarballs) {
    t.test(`${name}: publint and attw find nothing`, async () => {
      run(root, join(bin, 'publint'), '--strict', tarball)
      run(root, join(bin, 'attw'), '--profile', 'esm-only', tarball)
    })
  }

  const { devDependencies } = manifests.find(({ name }) => name === '@gatehouse/auth-core')
  const official = Object.fromEntries(
    Object.entries<string>(devDependencies).filter(([name]) => name.startsWith('@fastify/')),
  )
  const files = Object.fromEntries([...tarballs].map(([name, file]) => [name, `file:${file}`]))
  writeFileSync(
    join(dir, 'package.json'),
    JSON.stringify({
      private: true,
      type: 'module',
      dependencies: {
        ...files,
        ...official,
        fastify: '5.12.8',
        typescript: '7.0.2',
        '@types/node': '24.19.2',
      },
      overrides: files,
    }),
  )
  run(dir, 'npm', 'install', '--no-audit', '--no-fund', '--ignore-scripts')

  const entries = manifests.flatMap(({ name, exports }) =>
    Object.keys(exports)
      .filter((path) => !path.endsWith('.json'))
      .map((path) => name + path.slice(1)),
  )

  t.test('plain JavaScript imports every export', async (t) => {
    writeFileSync(
      join(dir, 'all.mjs'),
      entries
        .map((entry) => `console.log(Object.keys(await import('${entry}')).length > 0)`)
        .join('\n'),
    )
    t.equal(run(dir, join(bin, 'node'), 'all.mjs').trim(), entries.map(() => 'true').join('\n'))
  })

  /** Compiles files as strictly as TypeScript can. */
  function compile(...files: string[]): void {
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2024',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
    }
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
    run(dir, join(bin, 'tsc'), '-p', '.')
  }

  t.test('strict TypeScript compiles against every export and knows request.caller', async () => {
    const imports = entries.map((entry, i) => `import * as m${i} from '${entry}'\nvoid m${i}`)
    writeFileSync(
      join(dir, 'use.ts'),
      `${imports.join('\n')}
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'
const app = Fastify()
await app.register(auth, { psk: { key: 'sixteen-characters-or-more' } })
app.get('/', { onRequest: app.requireCaller() }, (request) => {
  const subject: string = request.caller.subject
  // @ts-expect-error: the caller is typed, not any
  request.caller.nothing
  return subject
})
`,
    )
    compile('use.ts')
  })

  t.test('every example of auth-core and of its README compiles', async (t) => {
    const source = join(root, 'packages/auth-core')
    const readme = readFileSync(join(source, 'README.md'), 'utf8')
    const snippets = Array.from(readme.matchAll(/^```ts\n(.*?)^```/gms), ([, code = '']) => code)
    t.ok(snippets.length >= 3)
    const names = snippets.map((code, i) => {
      const name = `readme-${i}.ts`
      writeFileSync(join(dir, name), code.includes('import Fastify') ? code : GIVEN + code)
      return name
    })
    cpSync(join(source, 'examples'), join(dir, 'examples'), { recursive: true })
    compile(...names, ...globSync('examples/*.ts', { cwd: dir }))
  })

  t.test('the packed types carry a text for every option', async (t) => {
    for (const file of ['options.d.ts', 'plugin.d.ts']) {
      const types = readFileSync(join(dir, 'node_modules/@gatehouse/auth-core/dist', file), 'utf8')
      const options = Array.from(types.matchAll(/(\*\/)?\s*readonly (\w+)\??:/g))
      t.ok(options.length > 2, file)
      for (const [, comment, name] of options) if (name !== 'raw') t.ok(comment, `${file}: ${name}`)
    }
  })

  t.test('the packed plugin guards a bare app', async (t) => {
    writeFileSync(
      join(dir, 'app.mjs'),
      `import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'
const app = Fastify()
await app.register(auth, { psk: { key: 'sixteen-characters-or-more' } })
app.get('/', { onRequest: app.requireCaller() }, (request) => request.caller.subject)
for (const authorization of [undefined, 'APIKey wrong', 'apikey sixteen-characters-or-more']) {
  const answer = await app.inject({ url: '/', headers: authorization ? { authorization } : {} })
  console.log(answer.statusCode, answer.headers['www-authenticate'] !== undefined)
}
`,
    )
    t.strictSame(run(dir, join(bin, 'node'), 'app.mjs').trim().split('\n'), [
      '401 true',
      '401 true',
      '200 false',
    ])
  })

  t.test('a tarball holds what it says and no test', async (t) => {
    for (const { name, publishConfig } of manifests) {
      const tarball = tarballs.get(name) as string
      const list = run(dir, 'tar', '-tzf', tarball)
      for (const entry of Object.values<string | { default: string }>(publishConfig.exports))
        if (typeof entry === 'object')
          t.match(list, entry.default.replace('./', 'package/'), basename(tarball))
      t.match(list, 'package/LICENSE', basename(tarball))
      t.notMatch(list, /\.test\.|tsbuildinfo|node_modules/, basename(tarball))
    }
  })
})
