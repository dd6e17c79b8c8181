// `npm start` and its like: installs what the lock file names, then runs the pnpm script of that name.
// Plain JavaScript for Node 20, since it runs before the Node that the workspace brings is there.
import { spawnSync } from 'node:child_process'

const PNPM = 'pnpm@12.21.0'
const [script, ...rest] = process.argv.slice(2)

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`Gatehouse needs Node >= 20 to begin with, and this is ${process.versions.node}.`)
  process.exit(1)
}

// A stale lock file must fail here: pnpm's own automatic install only warns and then runs on any Node.
run(['install', '--frozen-lockfile', ...(process.env.CI ? [] : ['--silent'])])
run(['run', ...(process.env.CI ? [] : ['--silent']), script, ...rest])

function run(args) {
  // Ctrl-C reaches the whole process group; this process waits so that the last line is the child's.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  const { status, error } = spawnSync('npx', ['-y', PNPM, ...args], { stdio: 'inherit' })
  process.off('SIGINT', ignore)
  if (error) console.error(`npx could not be started: ${error.message}`)
  if (status !== 0) process.exit(status ?? 1)
}
