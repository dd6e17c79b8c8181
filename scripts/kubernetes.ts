// Builds the control plane of Kubernetes, and tries the chart and the examples at it.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const tools = process.env.GATEHOUSE_TOOLS ?? join(ROOT, 'node_modules/.cache/tools')
const folder = join(tools, 'kubernetes')

function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): boolean {
  const options = { cwd: ROOT, env: { ...process.env, ...env }, stdio: 'inherit' } as const
  return spawnSync(command, args, options).status === 0
}

if (spawnSync('etcd', ['--version']).status !== 0) {
  console.error('There is no etcd: install it first, such as by apt-get install etcd-server.')
  process.exit(1)
}
mkdirSync(folder, { recursive: true })
console.log(`Building Kubernetes in ${folder}: ten minutes, the first time only.`)
const isMade = run('bash', [join(import.meta.dirname, 'kubernetes.sh'), folder])
const trial = 'scripts/test/kubernetes/trial.ts'
const args = ['--disable-coverage', '--timeout=900', `--include=${trial}`, trial]
process.exitCode = isMade && run('tap', args, { KUBERNETES_TOOLS: folder }) ? 0 : 1
