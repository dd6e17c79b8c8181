import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ROOT } from './markdown.ts'

/** Stands in for npm: it installs a pnpm, and notes that as npm does. */
const NPM = `#!${process.execPath}
const { appendFileSync, copyFileSync, mkdirSync } = require('node:fs')
appendFileSync('asked', 'npm ' + process.argv.slice(2, 5).join(' ') + '\\n')
mkdirSync('scripts/pnpm/node_modules/.bin', { recursive: true })
copyFileSync('tools/pnpm', 'scripts/pnpm/node_modules/.bin/pnpm')
copyFileSync('scripts/pnpm/package-lock.json', 'scripts/pnpm/node_modules/.package-lock.json')
`
/** Stands in for pnpm: it notes what it was asked for, installs what `Workspace` has, and prints like pnpm. */
const PNPM = `#!${process.execPath}
const { appendFileSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs')
appendFileSync('asked', ['pnpm', ...process.argv.slice(2)].join(' ') + '\\n')
const fault = readFileSync('fault', 'utf8')
const say = (event) => console.log(JSON.stringify(event))
if (fault !== '') {
  say({ name: 'pnpm', level: 'error', message: fault })
  process.exit(1)
}
mkdirSync('node_modules', { recursive: true })
writeFileSync('node_modules/.modules.yaml', 'installed')
say({ name: 'pnpm:skipped-optional-dependency', level: 'debug' })
for (const status of ['resolved', 'imported', 'resolved', 'imported'])
  say({ name: 'pnpm:progress', level: 'debug', status })
`
const LOCK = 'packages:\n\n  a@1:\n    x: y\n\n  b@1:\n    x: y\n\n  c@1:\n    x: y\n\nsnapshots:\n'
const UP = 'node -e "console.log(process.argv[1])" running'

const lockOf = (integrity: string) =>
  JSON.stringify({ packages: { 'node_modules/pnpm': { integrity } } })

async function makeWorkspace(t: Test) {
  const root = t.testdir({
    'package.json': JSON.stringify({ type: 'commonjs', scripts: { up: UP } }),
    'pnpm-lock.yaml': LOCK,
    'pnpm-workspace.yaml': '',
    packages: { a: { 'package.json': '{}' } },
    scripts: { pnpm: { 'package-lock.json': lockOf('sha512-1') } },
    tools: { npm: NPM, pnpm: PNPM },
    asked: '',
    fault: '',
  })
  for (const tool of ['npm', 'pnpm']) await chmod(join(root, 'tools', tool), 0o755)
  for (const name of ['pnpm.mjs', 'need-node.mjs'])
    await copyFile(join(ROOT, 'scripts', name), join(root, 'scripts', name))
  await mkdir(join(root, 'node_modules/.bin'), { recursive: true })
  await symlink(process.execPath, join(root, 'node_modules/.bin/node'))
  const { CI: _, NO_COLOR: __, TERM: ___, ...rest } = process.env
  const PATH = `${join(root, 'tools')}:${dirname(process.execPath)}:${process.env.PATH}`
  const env = { ...rest, PATH }
  return {
    root,
    write: (file: string, content: string) => writeFile(join(root, file), content),
    /** Runs `npm start`'s program, in a pipe. */
    async start(script = 'up') {
      await writeFile(join(root, 'asked'), '')
      const child = spawn(process.execPath, ['scripts/pnpm.mjs', script], { cwd: root, env })
      const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
      return { code, out, asked: await readFile(join(root, 'asked'), 'utf8') }
    },
    /** The same on a terminal. */
    async onTerminal(more: Record<string, string>) {
      const args = ['-qec', `${process.execPath} scripts/pnpm.mjs up`, '/dev/null']
      return new Promise<string>((settle, reject) =>
        execFile('script', args, { cwd: root, env: { ...env, ...more } }, (error, out) =>
          error ? reject(error) : settle(out.replaceAll('\r\n', '\n')),
        ),
      )
    },
  }
}

const INSTALLED = /^Installing [^\n]*\nInstalled in \d+ s\.\nStarting Gatehouse\nrunning\n$/
const STARTED = 'Starting Gatehouse\nrunning\n'

t.test('npm start installs once, and needs no pnpm after that', async (t) => {
  const { root, start, write } = await makeWorkspace(t)
  const first = await start()
  t.match(first.out, INSTALLED)
  t.match(first.out, 'the first time only')
  t.match(first, {
    code: 0,
    asked: /^npm ci --prefix scripts\/pnpm\npnpm install --frozen-lockfile/,
  })
  t.strictSame(await start(), { code: 0, out: STARTED, asked: '' })

  const changes: [what: string, change: () => Promise<unknown>][] = [
    ['the lock file', () => write('pnpm-lock.yaml', `${LOCK}\n  d@1:\n`)],
    ['a package.json', () => write('packages/a/package.json', '{"name":"a"}')],
    ['a new package', async () => mkdir(join(root, 'packages/b'))],
    ['settings of the workspace', () => write('pnpm-workspace.yaml', 'packages: []')],
    ['what somebody else installed', () => write('node_modules/.modules.yaml', 'production')],
    ['no record', () => rm(join(root, 'node_modules/.cache'), { recursive: true })],
  ]
  for (const [what, change] of changes) {
    await change()
    const { code, out, asked } = await start()
    t.match({ code, out }, { code: 0, out: INSTALLED }, what)
    t.match(asked, 'install --frozen-lockfile', what)
    t.equal((await start()).asked, '', `${what}, and nothing more after that`)
  }
})

t.test('what cannot be installed is not started, now and next time', async (t) => {
  const { start, write } = await makeWorkspace(t)
  await write('fault', 'pnpm-lock.yaml is not up to date')
  for (let tries = 0; tries < 2; tries++) {
    const { code, out } = await start()
    t.equal(code, 1)
    t.match(
      out,
      /^Installing [^\n]*\npnpm-lock.yaml is not up to date\nNothing was started[^\n]*\n$/,
    )
  }
})

t.test('without a Node of the workspace, an old one is refused in a sentence', async (t) => {
  const { root, start, write } = await makeWorkspace(t)
  await rm(join(root, 'node_modules/.bin/node'))
  await write('scripts/need-node.mjs', "console.log('too old'); process.exit(1)")
  const { code, out } = await start()
  t.equal(code, 1)
  t.match(out, /too old\n$/)
})

t.test('other scripts are always installed for, as CI does', async (t) => {
  const { start } = await makeWorkspace(t)
  await start()
  const { asked } = await start('check')
  t.match(asked, /^pnpm install --frozen-lockfile .*\npnpm run .*check/)
})

t.test('pnpm is fetched again when its lock file names another, and not otherwise', async (t) => {
  const { start, write } = await makeWorkspace(t)
  const isFetched = async () => (await start('check')).asked.startsWith('npm ci ')
  t.strictSame([await isFetched(), await isFetched()], [true, false])
  await write('scripts/pnpm/package-lock.json', lockOf('sha512-2'))
  t.strictSame([await isFetched(), await isFetched()], [true, false])
})

t.test('progress', async (t) => {
  const { start, onTerminal, root } = await makeWorkspace(t)
  const again = () => rm(join(root, 'node_modules/.cache'), { recursive: true, force: true })
  t.notMatch((await start()).out, '\r', 'a pipe has no control codes')
  if (process.platform !== 'linux') return
  await again()
  t.match(await onTerminal({ TERM: 'xterm' }), '\r\x1b[2KInstalling: 2 of 2 packages\r\x1b[2KInst')
  for (const more of [{ TERM: 'dumb' }, { NO_COLOR: '1' }, { CI: 'true' }]) {
    await again()
    t.match(await onTerminal({ TERM: 'xterm', ...more }), INSTALLED, JSON.stringify(more))
  }
})
