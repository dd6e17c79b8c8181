/**
 * `npm run bench:peers [-- --people 1000 --rounds 1 --write]`: Gatehouse beside oauth2-proxy and step-ca, which it installs
 * with Go and runs. `--write` puts the figures into docs/comparison.md.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { certificates } from './peers/certificates.ts'
import { checks, type Row } from './peers/checks.ts'

const PEERS = {
  'oauth2-proxy': ['github.com/oauth2-proxy/oauth2-proxy/v7', 'v7.15.3'],
  'step-ca': ['github.com/smallstep/certificates/cmd/step-ca', 'v0.30.2'],
} as const
const TOOLS = fileURLToPath(new URL('../node_modules/.cache/peers/', import.meta.url))
const PAGE = new URL('../docs/comparison.md', import.meta.url)

const { values: options } = parseArgs({
  options: {
    people: { type: 'string', default: '10000' },
    /** One process says little: two of the same code can differ by a third. */
    rounds: { type: 'string', default: '3' },
    write: { type: 'boolean', default: false },
  },
})

// What it has started ends with it.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

const [people, rounds] = [Number(options.people), Number(options.rounds)]
const began = loadavg()[0] ?? 0
const oauth2Proxy = install('oauth2-proxy')
const stepCa = install('step-ca')
const tables = [
  await tableOf(['Gatehouse', 'oauth2-proxy'], checks(oauth2Proxy, people, rounds)),
  await tableOf(['Gatehouse', 'step-ca'], certificates(stepCa, rounds)),
]
const text = [circumstances(), ...tables].join('\n\n')
console.log(text)
if (options.write) {
  const page = readFileSync(PAGE, 'utf8')
  const between = /(<!-- peers -->\n)[\s\S]*(<!-- \/peers -->)/
  writeFileSync(PAGE, page.replace(between, `$1\n${text}\n\n$2`))
}

/** Gives the path of a program. What is in Go's cache takes a second. */
function install(name: keyof typeof PEERS): string {
  const [module, version] = PEERS[name]
  process.stderr.write(`installing ${module}@${version} ...\n`)
  // step-ca's support for smart cards needs a C library, which servers lack.
  const env = { ...process.env, GOBIN: TOOLS, CGO_ENABLED: '0' }
  execFileSync('go', ['install', `${module}@${version}`], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return `${TOOLS}${name}`
}

async function tableOf(sides: readonly string[], rows: AsyncIterable<Row>): Promise<string> {
  const lines = [`| | ${sides.join(' | ')} |`, `| --- |${' --- |'.repeat(sides.length)}`]
  for await (const [what, figures] of rows) {
    const cells = sides.map((side) => {
      const figure = figures[side]
      return figure === undefined
        ? ''
        : `${figure.median.toFixed(0)} (${figure.least.toFixed(0)}–${figure.most.toFixed(0)})`
    })
    lines.push(`| ${[what, ...cells].join(' | ')} |`)
    process.stderr.write(`${lines.at(-1)}\n`)
  }
  return lines.join('\n')
}

function circumstances(): string {
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], {
    encoding: 'utf8',
  }).trim()
  const day = new Date().toLocaleDateString('en-GB', { dateStyle: 'long' })
  const versions = Object.entries(PEERS).map(([name, [, version]]) => `${name} ${version.slice(1)}`)
  const load = [began, loadavg()[0] ?? 0].map((value) => value.toFixed(1)).join(' before and ')
  return `Run of ${day}: Gatehouse at commit ${commit} on Node ${process.versions.node}, ${versions.join(' and ')}, on
${cpus().length} cores of ${cpus()[0]?.model.trim()}. Load average: ${load} after it.`
}
