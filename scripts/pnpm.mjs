// `npm start` and its like: installs what the lock file names, then runs the pnpm script of that name.
// Plain JavaScript for Node 20, since it runs before the Node that the workspace brings is there.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { setTimeout } from 'node:timers/promises'

const PNPM = 'pnpm@12.21.0'
/** How long what was told to stop may take, in ms. */
const GRACE = 15_000
const [script, ...rest] = process.argv.slice(2)

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`Gatehouse needs Node >= 20 to begin with, and this is ${process.versions.node}.`)
  process.exit(1)
}

const quiet = process.env.CI ? '' : '--silent'
const args = rest.map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`).join(' ')
// A stale lock file must fail here: pnpm's own automatic install only warns and then runs on any Node.
// One npx for both, as each takes more than a second.
// Node keeps there what it made of each file, so that not every process strips and compiles it again.
const cache = 'NODE_COMPILE_CACHE="$PWD/node_modules/.cache/node"'
const command = `pnpm install --frozen-lockfile ${quiet} && ${cache} pnpm run ${quiet} ${script} ${args}`
// What npx tells its command in the environment, another npx below it would take for its own.
// Offline, the registry would be asked for it for more than a minute.
const npx = [
  '-y',
  '--prefer-offline',
  '-p',
  PNPM,
  '-c',
  `unset npm_config_call npm_config_package; ${command}`,
]
if (!existsSync('node_modules/.modules.yaml'))
  console.log('Installing what the lock file names: half a minute, the first time only.')
// A process group of its own: npx and pnpm do not pass signals on, so they go to each process of the group.
const child = spawn('npx', npx, { stdio: ['ignore', 'inherit', 'inherit'], detached: true })
child.on('error', (error) => {
  console.error(`npx could not be started: ${error.message}`)
  process.exit(1)
})

let stopped
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    // Ctrl-C arrives twice: from the terminal and from npm.
    if (stopped === signal) return
    stopped = signal
    signalGroup(signal)
  })

child.on('exit', async (code) => {
  // Whatever is still closing goes on to the end, so that the last line is the child's.
  if (stopped) {
    const deadline = Date.now() + GRACE
    while (signalGroup(0) && Date.now() < deadline) await setTimeout(50)
    signalGroup('SIGKILL')
  }
  process.exit(code ?? (stopped ? 128 + constants.signals[stopped] : 1))
})

/** Gives whether anything of the group is still there. */
function signalGroup(signal) {
  try {
    return process.kill(-child.pid, signal)
  } catch {
    return false
  }
}
