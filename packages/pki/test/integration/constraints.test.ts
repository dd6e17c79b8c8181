import { execFile, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { createRoot, parseName, readConstraints, toPem } from '../../src/index.ts'
import { constraintsOf, DAY, issue, makeAuthorities, makeUpper } from '../helpers.ts'

const run = promisify(execFile)
const now = Date.now()
const folder = t.testdir({})

/** What the intermediate is limited to, and names that clients must accept or refuse below it. */
const CASES: [permitted: string[], accepted: string[][], refused: string[][]][] = [
  [[], [['a.test'], ['10.1.2.3'], ['2001:db8::1']], []],
  [
    ['example.com', '*.example.com'],
    [['example.com'], ['a.b.example.com', '*.example.com']],
    [['a.test'], ['10.1.2.3'], ['2001:db8::1'], ['example.com', '10.1.2.3']],
  ],
  [
    ['example.com', '*.example.com', '10.0.0.0/8'],
    [['a.example.com'], ['10.1.2.3'], ['a.example.com', '10.255.0.1']],
    [['a.test'], ['11.1.2.3'], ['2001:db8::1'], ['::1'], ['100::2'], ['a.example.com', '::a00:1']],
  ],
  [
    ['*.example.com', '2001:db8::/32'],
    [['a.example.com'], ['2001:db8::1']],
    [['2001:db9::1'], ['10.1.2.3'], ['0.0.0.1'], ['127.0.0.1']],
  ],
  [
    ['a.test', '10.0.0.0/8', '192.168.0.0/16', 'fd00::/8'],
    [['a.test', '10.1.2.3', 'fd00::1'], ['192.168.1.1']],
    [['b.test'], ['192.169.0.1'], ['fe80::1']],
  ],
  [['10.0.0.0/8'], [['10.1.2.3']], [['a.test'], ['10.1.2.3', 'a.test'], ['11.1.2.3'], ['::1']]],
  [['::1'], [['::1']], [['a.test'], ['::2'], ['10.1.2.3']]],
]

interface Case {
  readonly what: string
  readonly isAccepted: boolean
  /** Leaf, intermediate and root in one file. */
  readonly file: string
}

async function writeCases(): Promise<Case[]> {
  const cases: Case[] = []
  for (const [at, [permitted, accepted, refused]] of CASES.entries()) {
    const { root, intermediate } = await makeAuthorities({ now, permitted })
    for (const [isAccepted, lists] of [
      [true, accepted],
      [false, refused],
    ] as const)
      for (const names of lists) {
        const file = join(folder, `${at}-${cases.length}.pem`)
        const { der } = issue(intermediate, names, { now })
        write(file, [der, intermediate.certificate, root.certificate])
        cases.push({ what: `${permitted.join() || 'any'}: ${names.join()}`, isAccepted, file })
      }
  }
  return cases
}

/** Constraints that an authority brings along, and names of which some are within. */
const BROUGHT = [
  ['+corp.example'],
  ['+.corp.example'],
  ['+'],
  ['-'],
  ['-corp.example', '-a.test'],
  ['+corp.example', '-x.corp.example'],
  ['+#0a000000ff000000'],
  ['-#0a000000ff000000'],
  ['+corp.example', '-#0000000000000000', `-#${'00'.repeat(32)}`],
  ['+O=Corp', '+corp.example'],
  ['-O=Corp'],
]
const NAMES = [
  ...[
    'corp.example',
    'a.corp.example',
    '*.corp.example',
    '*.a.corp.example',
    '*.example',
    'a.test',
  ],
  ...['x.corp.example', 'a.x.corp.example', 'xcorp.example', '10.1.2.3', '11.1.2.3', 'fd00::1'],
]
/** What is refused although OpenSSL accepts it: a wildcard that covers an excluded name. */
const NARROWER = ['-x.corp.example *.corp.example', '-corp.example *.example']

async function writeBrought(): Promise<Case[]> {
  const root = await createRoot({ commonName: 'Test Root', now })
  return BROUGHT.flatMap((constraints, at) => {
    const upper = makeUpper(root, 90 * DAY, constraintsOf(constraints))
    const { permits, isSubjectLimited } = readConstraints(upper.chain)
    return NAMES.flatMap((text) => {
      const isAccepted = permits(parseName(text))
      if (!isAccepted && NARROWER.some((one) => constraints.some((c) => one === `${c} ${text}`)))
        return []
      const { der } = issue(upper, [text], { now, withoutSubject: isSubjectLimited })
      const file = join(folder, `brought-${at}-${text.replaceAll(/[*:]/g, '_')}.pem`)
      write(file, [der, upper.certificate, root.certificate])
      return { what: `${constraints.join(' ')}: ${text}`, isAccepted, file }
    })
  })
}

function write(file: string, ders: readonly Uint8Array[]): void {
  const pems = ders.map((one) => toPem('CERTIFICATE', one))
  writeFileSync(file, pems.join(''))
  writeFileSync(`${file}.root`, pems.at(-1) ?? '')
}

const cases = [...(await writeCases()), ...(await writeBrought())]

t.test('OpenSSL accepts what is within the constraints, and nothing else', async (t) => {
  for (const { what, isAccepted, file } of cases) {
    const args = ['verify', '-x509_strict', '-CAfile', `${file}.root`, '-untrusted', file, file]
    const result = await run('openssl', args).then(
      () => 'OK',
      ({ stderr, stdout }) => String(stderr) + stdout,
    )
    if (isAccepted) t.equal(result, 'OK', what)
    else t.match(result, /permitted subtree violation|excluded subtree violation/, what)
  }
})

const hasJava = spawnSync('java', ['-version']).status === 0
if (!hasJava) console.error('java is missing: name constraints are not tried with it')

t.test(
  'Java does the same, but fails at an empty domain',
  { skip: !hasJava && 'java is missing' },
  async (t) => {
    const program = join(import.meta.dirname, 'Verify.java')
    const { stdout } = await run('java', [program, ...cases.map(({ file }) => file)])
    const results = new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(/: (.*)/) as [string, string]),
    )
    for (const { what, isAccepted, file } of cases.filter(({ what }) => !/^[+-]:/.test(what))) {
      const result = results.get(file)
      if (isAccepted) t.equal(result, 'OK', what)
      else t.match(result, /CertPathValidatorException/, what)
    }
  },
)
