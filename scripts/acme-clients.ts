// Gets all ACME clients, tries each at cert-service, and prints what came of it.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')
const folder = process.env.ACME_CLIENTS ?? join(ROOT, 'node_modules/.cache/acme-clients')
const table = join(folder, 'table.md')

function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): boolean {
  const options = { cwd: ROOT, env: { ...process.env, ...env }, stdio: 'inherit' } as const
  return spawnSync(command, args, options).status === 0
}

mkdirSync(folder, { recursive: true })
rmSync(table, { force: true })
console.log(`Getting the clients into ${folder}: some minutes, the first time only.`)
const isMade = run('bash', [join(import.meta.dirname, 'acme-clients.sh'), folder, 'all'])
if (!isMade) console.error('Not all clients could be had: what is missing is skipped.')
const test = 'services/cert-service/test/integration/acme-trial.test.ts'
const passed = run('tap', ['--timeout=1200', `--include=${test}`, '--exclude=node_modules', test], {
  ACME_CLIENTS: folder,
  ACME_CLIENTS_TABLE: table,
  TRAEFIK: process.env.TRAEFIK ?? join(folder, 'traefik'),
})
if (existsSync(table)) console.log(readFileSync(table, 'utf8'))
process.exitCode = passed && isMade ? 0 : 1
