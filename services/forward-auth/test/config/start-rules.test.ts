import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { loadForwardAuthConfig } from '../../src/config/load.ts'

const FIXTURES = join(import.meta.dirname, '../fixtures')
const NAMES = ['server.cert.pem', 'server.key.pem', 'stranger.key.pem', 'client-ca.cert.pem']
const FIT = {
  certFile: 'server.cert.pem',
  keyFile: 'server.key.pem',
  clientCaFile: 'client-ca.cert.pem',
}

const portals = [
  {
    name: 'main',
    providers: [
      {
        type: 'openIDConnect',
        name: 'corp',
        issuerUrl: 'https://id.example.com',
        clientId: 'a',
        clientSecret: 'b',
      },
    ],
  },
]

interface Home {
  readonly folder: string
  readonly file: string
}

function home(t: Test, config: object): Home {
  const folder = testFolder(t, { empty: '', garbage: 'nothing of use\n', folder: {}, data: {} })
  for (const name of NAMES) copyFileSync(join(FIXTURES, name), join(folder, name))
  const file = join(folder, 'config.yaml')
  writeFileSync(file, stringify({ domains: [{ domain: 'example.com' }], portals, ...config }))
  return { folder, file }
}

async function faultsOf({ file }: Home, withoutSecrets = false): Promise<string[]> {
  return loadForwardAuthConfig(file, {}, { beforeStart: true, withoutSecrets }).then(
    () => [],
    (error: ConfigError) => error.faults.map(({ path, message }) => `${path} ${message}`),
  )
}

t.test('a path rule without hosts is a warning where a portal has several', async (t) => {
  const policies = { staff: 'Group("staff")' }
  const rule = { paths: ['/payments/*'], require: 'staff' }
  const host = (name: string) => ({ hosts: [name], require: 'signedIn' })
  const rows: [portal: object, isWarned: boolean][] = [
    [{ rules: [rule] }, false],
    [{ rules: [rule, host('a.example.com')] }, false],
    [{ rules: [rule, host('a.example.com'), host('b.example.com')] }, true],
    [{ rules: [rule, host('*.example.com')] }, true],
    [
      {
        rules: [rule, host('a.example.com')],
        apps: [{ name: 'b', url: 'https://b.example.com' }],
      },
      true,
    ],
    [{ rules: [{ ...rule, hosts: ['a.example.com'] }, host('b.example.com')] }, false],
    [{ rules: [{ ...rule, require: 'anyone' }, host('*.example.com')] }, false],
    [{ rules: [{ methods: ['PUT'], require: 'staff' }, host('*.example.com')] }, false],
  ]
  for (const [portal, isWarned] of rows) {
    const { file } = home(t, { portals: [{ ...portals[0], policies, ...portal }] })
    const { warnings } = await loadForwardAuthConfig(file, {}, { beforeStart: true })
    t.match(
      warnings,
      isWarned ? [/rules\/0\/paths is also demanded at all other hosts/] : { length: 0 },
    )
    t.equal(warnings.length, isWarned ? 1 : 0, JSON.stringify(portal))
  }
})

const POLICIES = {
  staff: 'Group("staff")',
  readers: 'Group("staff") || Scope("read")',
  strong: { acr: ['mfa'] },
}

t.test('a key that can pass nowhere is a warning', async (t) => {
  const at = (...hosts: string[]) => ({ hosts: hosts.map((name) => `${name}.example.com`) })
  const books = at('books')
  const rows: [key: object, rules: object[], ...warned: string[]][] = [
    [books, []],
    [books, [{ ...books, require: 'staff' }], 'hosts/0'],
    [books, [{ ...books, require: 'strong' }], 'hosts/0'],
    [books, [{ ...books, require: ['readers', 'staff'] }], 'hosts/0'],
    [books, [{ require: 'staff' }], 'hosts/0'],
    [books, [{ ...at('*'), require: 'staff' }], 'hosts/0'],
    [books, [{ ...books, require: 'readers' }], 'hosts/0'],
    [{ ...books, scopes: ['read'] }, [{ ...books, require: 'readers' }]],
    [books, [{ ...books, paths: ['/a/*'], require: 'staff' }]],
    [books, [{ ...books, paths: ['/opds/*'], require: 'signedIn' }, { require: 'staff' }]],
    [books, [{ ...books, methods: ['GET'], require: 'anyone' }, { require: 'staff' }]],
    [books, [{ ...books, paths: ['/a/*'], require: 'staff' }, { require: 'staff' }], 'hosts/0'],
    [books, [{ ...at('other'), require: 'anyone' }, { require: 'staff' }], 'hosts/0'],
    [
      books,
      [
        { paths: ['/public/*'], require: 'anyone' },
        { ...books, require: 'staff' },
      ],
      'hosts/0',
    ],
    [at('books', 'other'), [{ ...at('other'), require: 'staff' }], 'hosts/1'],
    [at('*'), [{ ...books, require: 'staff' }]],
    [
      at('*'),
      [
        { ...books, require: 'signedIn' },
        { ...at('*'), require: 'staff' },
      ],
    ],
    [at('*.x'), [{ ...at('*'), require: 'staff' }], 'hosts/0'],
    [{ policies: ['staff'] }, [], 'policies'],
    [{ policies: ['staff', 'readers'] }, [], 'policies'],
    [{ policies: ['staff', 'readers'], scopes: ['read'] }, []],
  ]
  for (const [key, rules, ...warned] of rows) {
    const keys = [{ name: 'reader', key: 'correct-horse-battery-staple', ...key }]
    const portal = { ...portals[0], policies: POLICIES, callers: { keys }, rules }
    const { file } = home(t, { portals: [portal] })
    const { warnings } = await loadForwardAuthConfig(file, {}, { beforeStart: true })
    const expected = warned.map((path) => new RegExp(`/callers/keys/0/${path} .* can pass nowhere`))
    t.match(warnings, expected, JSON.stringify([key, rules]))
    t.equal(warnings.length, expected.length, JSON.stringify([key, rules]))
  }
})

const tls = (change: object) => ({ server: { tls: { ...FIT, ...change } } })

t.test('reports TLS files that cannot be used at their keys', async (t) => {
  const bad: [name: string, said: RegExp][] = [
    ['none', / names a file that does not exist \(ENOENT\): .*\/none$/],
    ['folder', / names a file that is a folder \(EISDIR\): .*\/folder$/],
    ['empty', / names a file that holds no PEM .*: .*\/empty$/],
    ['garbage', / names a file that holds no PEM .*: .*\/garbage$/],
  ]
  for (const key of Object.keys(FIT))
    for (const [name, said] of bad) {
      const faults = await faultsOf(home(t, tls({ [key]: name })))
      t.match(faults, [said], `${key} ${name}`)
      t.ok(faults.length === 1 && faults[0]?.startsWith(`/server/tls/${key} `), key)
    }
  t.match(await faultsOf(home(t, tls({ keyFile: 'stranger.key.pem' }))), [
    /^\/server\/tls\/keyFile names a key that is not that of certFile/,
  ])
  t.strictSame(await faultsOf(home(t, tls({}))), [])
  t.strictSame(await faultsOf(home(t, tls({ certFile: 'none', keyFile: 'none' })), true), [])
})

t.test('requires the token file of a client assertion', async (t) => {
  const at = (clientAssertion: object) => {
    const { clientSecret: _, ...provider } = portals[0]!.providers[0]!
    return home(t, { portals: [{ name: 'main', providers: [{ ...provider, clientAssertion }] }] })
  }
  const path = '/portals/0/providers/0/clientAssertion/file'
  const bad = {
    none: `${path} names a file that does not exist (ENOENT): `,
    folder: `${path} names a file that is a folder (EISDIR): `,
    empty: `${path} names a file that is empty: `,
  }
  for (const type of ['file', 'kubernetesServiceAccount', 'azureWorkloadIdentity']) {
    for (const [file, said] of Object.entries(bad)) {
      const faults = await faultsOf(at({ type, file }))
      t.ok(faults.length === 1 && faults[0]?.startsWith(said), `${type}: ${faults}`)
    }
    t.strictSame(await faultsOf(at({ type, file: 'garbage' })), [], 'whatever it holds')
    t.strictSame(await faultsOf(at({ type, file: 'none' }), true), [])
  }
  t.strictSame(await faultsOf(at({ type: 'azureManagedIdentity' })), [], 'which has no file')
})

t.test('does not require the Tailscale socket to exist', async (t) => {
  const providers = [{ type: 'tailscaleWhois', name: 'net', socket: 'none' }]
  const server = { trustedProxies: ['127.0.0.1/32'] }
  t.strictSame(await faultsOf(home(t, { server, portals: [{ name: 'main', providers }] })), [])
})

t.test('refuses domains for which browsers refuse cookies, or that strangers share', async (t) => {
  const SHARED = /^\/domains\/0\/domain is a public suffix, below which anybody can get names: use /
  const NO_COOKIES =
    /^\/domains\/0\/domain is a public suffix, for which .* such as lab\.\S+, or session\.scope: host$/
  const rows: [domain: string, host: RegExp | undefined, domain: RegExp | undefined][] = [
    ['co.uk', SHARED, SHARED],
    ['com', SHARED, SHARED],
    ['GitHub.io.', SHARED, SHARED],
    ['duckdns.org', SHARED, SHARED],
    ['home.arpa', undefined, NO_COOKIES],
    ['internal', undefined, NO_COOKIES],
    ['lan', undefined, NO_COOKIES],
    ['localhost', undefined, NO_COOKIES],
    ['example.co.uk', undefined, undefined],
    ['example.com', undefined, undefined],
    ['me.duckdns.org', undefined, undefined],
    ['lab.home.arpa', undefined, undefined],
    ['home.internal', undefined, undefined],
    ['fritz.box', undefined, undefined],
  ]
  for (const [domain, ...expected] of rows)
    for (const [i, scope] of ['host', 'domain'].entries()) {
      const authHost = domain === 'localhost' ? 'http://localhost' : domain
      const faults = await faultsOf(
        home(t, { domains: [{ domain, authHost, session: { scope } }] }),
      )
      t.match(faults, expected[i] ? [expected[i]] : { length: 0 }, `${domain} ${scope}`)
      t.equal(faults.length, expected[i] ? 1 : 0, `${domain} ${scope}`)
    }
})

t.test('reports a storage folder that cannot be used', async (t) => {
  const at = home(t, { storage: { path: 'garbage' } })
  t.match(await faultsOf(at), [/^\/storage\/path needs a folder, and this is none: .*garbage$/])
  const faults = await faultsOf(home(t, { storage: { path: '/proc/gatehouse' } }))
  t.match(faults, [/^\/storage\/path needs a folder (on a disk|that this user may write to)/])

  const short = home(t, {})
  writeFileSync(join(short.folder, 'data/session.key'), 'short\n')
  t.match(await faultsOf(short), [/^\/storage\/path holds a key of fewer than 32 characters: /])
  const unused = home(t, { session: { keys: [{ secret: 's'.repeat(32) }] } })
  writeFileSync(join(unused.folder, 'data/session.key'), 'short\n')
  t.strictSame(await faultsOf(unused), [], 'which a configured key replaces')
})

t.test('creates and changes no files', async (t) => {
  const at = home(t, { storage: { path: 'a/b' } })
  const key = join(at.folder, 'data/session.key')
  writeFileSync(key, 'k'.repeat(43))
  const before = readdirSync(at.folder, { recursive: true, encoding: 'utf8' }).toSorted()
  t.strictSame(await faultsOf(at), [])
  t.strictSame(readdirSync(at.folder, { recursive: true, encoding: 'utf8' }).toSorted(), before)
  t.equal(readFileSync(key, 'utf8'), 'k'.repeat(43))
})
