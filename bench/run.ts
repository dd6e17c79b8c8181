/** `npm run bench [-- --quick] [--json FILE] [--only NAME] [--row TEXT] [--write]`: see README.md. */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { acme } from './acme.ts'
import { acmeServer } from './acme-server.ts'
import { authRequest } from './auth-request.ts'
import { check } from './check.ts'
import { gate } from './gate.ts'
import { growth } from './growth.ts'
import type { Effort } from './harness/compare.ts'
import { type Row, toMarkdown } from './harness/rows.ts'
import { held } from './held.ts'
import { csr, issue } from './issue.ts'
import { leaf } from './leaf.ts'
import { logouts } from './logouts.ts'
import { mcpProxy } from './mcp-proxy.ts'
import { memory } from './memory.ts'
import { replicas } from './replicas.ts'
import { sessions } from './sessions.ts'
import { shipped } from './shipped.ts'
import { start } from './start.ts'

const MEASUREMENTS: Record<string, (effort: Effort) => AsyncIterable<Row>> = {
  gate,
  held,
  check,
  shipped,
  logouts,
  'mcp-proxy': mcpProxy,
  'auth-request': authRequest,
  leaf,
  issue,
  csr,
  acme,
  'acme-server': acmeServer,
  start,
  memory,
  sessions,
  growth,
  replicas,
}

/** Those that have no target. */
const STATED: readonly string[] = ['gate', 'shipped', 'auth-request', 'leaf', 'issue', 'acme']

/** One process says little: two of the same code can differ by a third. */
const ROUNDS = 3
const WARM_UP_MS = { min: 6_000, max: 10_000 }

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    only: { type: 'string' },
    row: { type: 'string', default: '' },
    write: { type: 'boolean', default: false },
  },
})
const wants = (name: string) => name.includes(options.row)

const FULL: Effort = {
  rounds: ROUNDS,
  slices: 6,
  sliceMs: 700,
  stable: 0.05,
  warmUpMs: WARM_UP_MS,
  certificates: 100_000,
  comparisons: 'all',
  wants,
  noise: 0.04,
}
const QUICK: Effort = {
  rounds: ROUNDS,
  slices: 3,
  sliceMs: 300,
  stable: 0.08,
  warmUpMs: WARM_UP_MS,
  // Half of them fill the cache of cert-service.
  certificates: 10_000,
  comparisons: 'with target',
  wants,
  noise: 0.08,
}

const chosen = Object.entries(MEASUREMENTS).filter(([name]) =>
  options.only === undefined ? !(options.quick && STATED.includes(name)) : name === options.only,
)
if (chosen.length === 0) {
  console.error(`--only takes one of ${Object.keys(MEASUREMENTS).join(', ')}`)
  process.exit(1)
}

const rows: Row[] = []
for (const [name, measure] of chosen) {
  process.stderr.write(`${name} ...\n`)
  for await (const row of measure(options.quick ? QUICK : FULL)) {
    rows.push(row)
    report(row)
  }
}
if (options.write) writeTable(toMarkdown(rows))
if (!rows.every((row) => row.ok)) process.exitCode = 1

/** At once, so that nothing is lost when a run is stopped. */
function report(row: Row): void {
  const lines = toMarkdown([row]).split('\n')
  console.log((rows.length === 1 ? lines : lines.slice(2)).join('\n'))
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`)
}

function writeTable(table: string): void {
  const file = new URL('README.md', import.meta.url)
  const text = readFileSync(file, 'utf8')
  const between = /(<!-- table -->\n)[\s\S]*(<!-- \/table -->)/
  writeFileSync(file, text.replace(between, `$1${table}\n$2`))
}
