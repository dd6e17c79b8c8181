// `npm start` and its like: installs what the lock file names, then runs the pnpm script of that name.
// Plain JavaScript for Node 20, since it runs before the Node that the workspace brings is there.
import { spawnSync } from 'node:child_process'

const PNPM = 'pnpm@12.21.0'
const [script, ...rest] = process.argv.slice(2)

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`Gatehouse needs Node >= 20 to begin with, and this is ${process.versions.node}.`)
  process.exit(1)
}

const quiet = process.env.CI ? '' : '--silent'
const args = rest.map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`).join(' ')
// A stale lock file must fail here: pnpm's own automatic install only warns and then runs on any Node.
// One npx for both, as each takes more than a second.
const command = `pnpm install --frozen-lockfile ${quiet} && pnpm run ${quiet} ${script} ${args}`
// What npx tells its command in the environment, another npx below it would take for its own.
const npx = ['-y', '-p', PNPM, '-c', `unset npm_config_call npm_config_package; ${command}`]
// Ctrl-C reaches the whole process group; this process waits so that the last line is the child's.
process.on('SIGINT', () => {})
const { status, error } = spawnSync('npx', npx, { stdio: 'inherit' })
if (error) console.error(`npx could not be started: ${error.message}`)
process.exit(status ?? 1)
