// `npm start` and its like: installs what the lock file names, then runs the script of that name.
// Plain JavaScript for Node 20, since it runs before the Node that the workspace brings is there.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'

/** Has a lock file with the digest of pnpm, which npm compares. */
const PNPM = 'scripts/pnpm'
/** How long what was told to stop may take, in ms. */
const GRACE = 15_000
const BIN = resolve('node_modules/.bin')
/** Holds the digest of what was installed. */
const STAMP = 'node_modules/.cache/gatehouse/installed'
/** Whether a line may be written again over itself. */
const { CI, NO_COLOR, TERM } = process.env
const isLive = process.stdout.isTTY === true && !CI && !NO_COLOR && TERM !== 'dumb'

let child
let stopped
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    // Ctrl-C arrives twice: from the terminal and from npm.
    if (stopped === signal) return
    stopped = signal
    signalGroup(signal)
  })

const [script, ...rest] = process.argv.slice(2)
if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`Gatehouse needs Node >= 20 to begin with, and this is ${process.versions.node}.`)
  process.exit(1)
}
process.exit(await (script === 'up' ? up() : viaPnpm()))

/** The demo. It needs neither pnpm nor the network if everything that the lock file names is there. */
async function up() {
  if (readIfThere(STAMP) !== digest()) {
    const code = await install()
    if (code !== 0) return code
    mkdirSync(dirname(STAMP), { recursive: true })
    writeFileSync(STAMP, digest())
  }
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'))
  const guard = existsSync(join(BIN, 'node')) ? '' : 'node scripts/need-node.mjs && '
  const NODE_COMPILE_CACHE = resolve('node_modules/.cache/node')
  const PATH = `${BIN}${delimiter}${process.env.PATH}`
  const env = { ...process.env, NODE_COMPILE_CACHE, PATH }
  console.log('Starting Gatehouse')
  const code = await runGroup('sh', ['-c', `${guard}exec ${scripts.up}`], { env })
  // What was already running says so itself.
  if (stopped && code !== 0) console.log('Stopped.')
  return code
}

/** A script of a developer, which pnpm runs. */
function viaPnpm() {
  const quiet = CI ? '' : '--silent'
  const args = rest.map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`).join(' ')
  // Node keeps there what it made of each file, so that not every process strips and compiles it again.
  const cache = 'NODE_COMPILE_CACHE="$PWD/node_modules/.cache/node"'
  if (!existsSync('node_modules/.modules.yaml')) console.log(firstLine())
  return runWithPnpm(
    `pnpm install --frozen-lockfile ${quiet} && ${cache} pnpm run ${quiet} ${script} ${args}`,
  )
}

function firstLine() {
  return existsSync('node_modules/.modules.yaml')
    ? 'Installing what has changed in the lock file.'
    : 'Installing what the lock file names: half a minute, the first time only.'
}

/** Installs, and says how far it is. */
async function install() {
  console.log(firstLine())
  const names = /^packages:\n(.*?)^\S/ms.exec(`${readIfThere('pnpm-lock.yaml')}\nend`)?.[1] ?? ''
  let total = names.match(/^ {2}\S/gm)?.length ?? 0
  let done = 0
  const begun = Date.now()
  show('Fetching pnpm')
  const code = await runWithPnpm('pnpm install --frozen-lockfile --reporter=ndjson', (line) => {
    const event = parsed(line)
    if (event === undefined || event.level === 'error') return print(event?.message ?? line)
    // Programs for other systems.
    if (event.name === 'pnpm:skipped-optional-dependency') total--
    if (event.name === 'pnpm:progress' && event.status === 'imported')
      show(`Installing: ${++done} of ${Math.max(done, total)} packages`)
  })
  const seconds = Math.round((Date.now() - begun) / 1_000)
  if (code === 0) print(`Installed in ${seconds} s.`)
  else if (stopped) print('Stopped. The next start installs the rest.')
  else print('Nothing was started, since not everything could be installed.')
  return code
}

function parsed(line) {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

/** Writes over what `show` wrote before, on a terminal only. */
function show(text) {
  if (isLive) process.stdout.write(`\r\x1b[2K${text}`)
}

function print(text) {
  show('')
  console.log(text)
}

/** Changes with the lock file, each package.json, and what pnpm has installed since. */
function digest() {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}\n`)
  const folders = ['packages', 'services', 'examples'].flatMap((name) =>
    existsSync(name) ? readdirSync(name).map((folder) => join(name, folder)) : [],
  )
  const files = ['pnpm-lock.yaml', 'pnpm-workspace.yaml', 'node_modules/.modules.yaml']
  for (const folder of ['.', 'bench', ...folders.sort()]) {
    files.push(join(folder, 'package.json'))
    hash.update(`${folder} ${existsSync(join(folder, 'node_modules'))}\n`)
  }
  for (const file of files) hash.update(`${file}\0${readIfThere(file)}\0`)
  return hash.digest('hex')
}

function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

/**
 * Runs a command where pnpm is in the PATH. A stale lock file must fail there: pnpm's own automatic install
 * only warns and then runs on any Node.
 */
function runWithPnpm(command, onLine) {
  // Offline, the registry would be asked for it for more than a minute.
  const fetched = `npm ci --prefix ${PNPM} --prefer-offline --no-audit --no-fund --loglevel=error >/dev/null`
  const PATH = `${resolve(PNPM, 'node_modules/.bin')}${delimiter}${process.env.PATH}`
  const whole = isPnpmThere() ? command : `${fetched} && ${command}`
  return runGroup('sh', ['-c', whole], { env: { ...process.env, PATH } }, onLine)
}

/** npm notes what it has installed when all of it is there. */
function isPnpmThere() {
  const lock = JSON.parse(readFileSync(join(PNPM, 'package-lock.json'), 'utf8'))
  const { integrity } = lock.packages['node_modules/pnpm']
  return readIfThere(join(PNPM, 'node_modules/.package-lock.json')).includes(integrity)
}

/**
 * Runs a program to its end and gives its exit code. It has a process group of its own: npm and pnpm do not
 * pass signals on, so they go to each process of the group.
 */
async function runGroup(program, args, options, onLine) {
  const output = onLine ? 'pipe' : 'inherit'
  if (stopped) return codeOf(null)
  child = spawn(program, args, { ...options, stdio: ['ignore', output, output], detached: true })
  for (const stream of [child.stdout, child.stderr])
    if (stream) createInterface({ input: stream }).on('line', onLine)
  const code = await new Promise((settle) => {
    child.on('error', (error) => {
      console.error(`${program} could not be started: ${error.message}`)
      settle(1)
    })
    // After the last of its output.
    child.on(onLine ? 'close' : 'exit', (code) => settle(code))
  })
  if (stopped) await untilGone()
  return codeOf(code)
}

function codeOf(code) {
  return code ?? (stopped ? 128 + constants.signals[stopped] : 1)
}

/** Whatever is still closing goes on to the end, so that the last line is the child's. */
async function untilGone() {
  const deadline = Date.now() + GRACE
  while (signalGroup(0) && Date.now() < deadline) await setTimeout(50)
  signalGroup('SIGKILL')
}

/** Gives whether anything of the group is still there. */
function signalGroup(signal) {
  try {
    return child !== undefined && process.kill(-child.pid, signal)
  } catch {
    return false
  }
}
