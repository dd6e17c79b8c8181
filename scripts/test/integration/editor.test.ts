import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { init as initCerts } from '../../../services/cert-service/src/cli/init.ts'
import { loadCertConfig } from '../../../services/cert-service/src/config/load.ts'
import { init as initAuth } from '../../../services/forward-auth/src/cli/init.ts'
import { loadForwardAuthConfig } from '../../../services/forward-auth/src/config/load.ts'
import { FAULTY, withFault } from '../faulty-configs.ts'
import { LanguageServer } from './language-server.ts'

/** What an editor with yaml-language-server makes of the files that `init` writes. */

const SERVICES = {
  'forward-auth': { init: initAuth, load: loadForwardAuthConfig },
  'cert-service': { init: initCerts, load: loadCertConfig },
} as const

/** What is typed, with `|` where the cursor is; and what has to be offered there, first. */
const COMPLETIONS = {
  'forward-auth': [
    ['sections', '|', ['server', 'domains', 'portals']],
    ['members of a section', 'server:\n  |', ['host', 'port', 'trustedProxies']],
    ['words', 'log:\n  level: |', ['info', 'fatal', 'error', 'warn', 'debug', 'trace']],
    [
      'types of providers',
      'portals:\n  - providers:\n      - type: |',
      ['openIDConnect', 'github'],
    ],
    [
      'members of a type of provider',
      'portals:\n  - providers:\n      - type: github\n        |',
      ['clientId', 'clientSecret', 'clientSecretFile', 'organizations'],
    ],
    ['both kinds of storage', 'storage:\n  |', ['path', 'url']],
    ['members of one kind of storage', 'storage:\n  url: a\n  |', ['caFile', 'whenStale']],
    ['presets', 'portals:\n  - headers: |', ['default', 'remote-*']],
  ],
  'cert-service': [
    ['sections', '|', ['server', 'auth', 'issuers']],
    ['types of issuers', 'issuers:\n  - type: |', ['acme']],
    ['rights', 'rules:\n  - rights: [|]', ['issue', 'revoke']],
    ['kinds of TLS', 'server:\n  tls: |', ['own', '"off"', 'insecure']],
    [
      'DNS providers',
      'issuers:\n  - challenges:\n      - type: dns-01\n        providers:\n          - type: |',
      ['cloudflare', 'route53', 'rfc2136'],
    ],
    [
      'members of a DNS provider',
      'issuers:\n  - challenges:\n      - type: dns-01\n        providers:\n          - type: route53\n            |',
      ['accessKeyId', 'secretAccessKeyFile', 'region'],
    ],
  ],
} as const

/** Members that no editor may offer where they have no place. */
const NEVER = {
  'forward-auth': [
    ['portals:\n  - providers:\n      - type: github\n        |', ['issuerUrl', 'tailnet']],
    ['portals:\n  - |', ['sessionLifetime', 'tokenHeader']],
  ],
  'cert-service': [['storage:\n  |', ['cachePath']]],
} as const

/** Where check-config names a row and editors mark a member of it, or the other way: how far apart the two may be. */
const IN_ROW: Readonly<Record<string, (lines: number) => boolean>> = {
  'a secret that is missing': (lines) => lines === -3,
  'a caller with two names': (lines) => lines === 2,
  'a password without user': (lines) => lines === -5,
  'an issuer without audience': (lines) => lines === -1,
  'a client without tenant': (lines) => lines === -4,
}

t.test('yaml-language-server', async (t) => {
  const dir = t.testdir()
  const install = ['install', '--silent', '--no-audit', '--no-fund', 'yaml-language-server@2.0.0']
  execFileSync('npm', ['init', '-y'], { cwd: dir, stdio: 'ignore' })
  execFileSync('npm', install, { cwd: dir, stdio: 'ignore' })
  const server = new LanguageServer(dir)
  t.teardown(() => server.stop())
  await server.start()
  let count = 0

  for (const [service, { init, load }] of Object.entries(SERVICES)) {
    const folder = join(dir, service)
    mkdirSync(folder)
    await init(join(folder, 'config.yaml'))
    const open = async (text: string) => {
      count += 1
      const uri = pathToFileURL(join(folder, `${count}.yaml`)).href
      const schema = `# yaml-language-server: $schema=${service}.schema.json\n`
      return { uri, marks: await server.open(uri, schema + text) }
    }
    const offered = async (typed: string) => {
      const before = typed.split('|')[0]?.split('\n') ?? []
      const { uri } = await open(typed.replace('|', ''))
      return server.complete(uri, before.length, before.at(-1)?.length ?? 0)
    }
    const { sound, marked } = FAULTY[service as keyof typeof FAULTY]

    t.test(`${service}: what init writes, and a whole configuration, have no marks`, async (t) => {
      const text = readFileSync(join(folder, 'config.yaml'), 'utf8')
      const uri = pathToFileURL(join(folder, 'config.yaml')).href
      t.strictSame(await server.open(uri, text), [])
      t.strictSame((await open(sound)).marks, [])
      // The line of the file itself names the schema.
      const wrong = text.replace('\nserver:', '\nsarver:')
      t.match(await server.open(`${uri}.other.yaml`, wrong), [{ message: /sarver/ }])
    })

    t.test(`${service}: faults are marked at the line that check-config names`, async (t) => {
      for (const fault of marked) {
        const text = withFault(sound, fault)
        const file = join(folder, 'faulty.yaml')
        writeFileSync(file, text)
        const loading = load(file, {}, { withoutSecrets: true })
        const { faults } = await loading.then(
          () => ({ faults: [] }),
          (error: { faults: { line: number }[] }) => error,
        )
        const { marks } = await open(text)
        // The line with the schema is the first one.
        const lines = marks.map(({ line }) => line - 1)
        const line = faults[0]?.line ?? 0
        const isThere = lines.some((at) => at === line || IN_ROW[fault[0]]?.(at - line))
        t.ok(isThere, `${fault[0]}: ${line}`, { marks })
      }
    })

    t.test(`${service}: completion`, async (t) => {
      for (const [what, typed, labels] of COMPLETIONS[service as keyof typeof COMPLETIONS]) {
        const all = await offered(typed)
        t.strictSame(
          labels.filter((label) => !all.includes(label)),
          [],
          what,
        )
      }
      for (const [typed, labels] of NEVER[service as keyof typeof NEVER]) {
        const all = await offered(typed)
        t.not(all.length, 0)
        t.strictSame(
          labels.filter((label) => (all as string[]).includes(label)),
          [],
          typed,
        )
      }
    })
  }

  t.test('hover says what a member does', async (t) => {
    const folder = join(dir, 'forward-auth')
    const uri = pathToFileURL(join(folder, 'hover.yaml')).href
    const text = '# yaml-language-server: $schema=forward-auth.schema.json\nserver:\n  port: 1\n'
    await server.open(uri, text)
    t.match(await server.hover(uri, 2, 4), /Port to listen on/)
  })
})
