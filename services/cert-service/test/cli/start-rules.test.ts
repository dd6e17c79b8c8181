import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import type { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { openKeyring } from '../../../../packages/cert-store/src/sealing/master-key.ts'
import { START_RULES } from '../../src/cli/start-rules.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const KEY = `${'A'.repeat(43)}=\n`
const DAY = 86_400_000

const now = Date.now()
const root = await createRoot({ commonName: 'R', now })
const other = await createRoot({ commonName: 'O', now })
const old = await createRoot({ commonName: 'P', now: now - 11 * 366 * DAY })
const leafKey = toPem('PRIVATE KEY', keyOf(other))
const intermediate = await createIntermediate({ root, commonName: 'I', now })

function keyOf({ key }: { key?: unknown }): Buffer {
  return (key as { export(o: object): Buffer }).export({ format: 'der', type: 'pkcs8' })
}

const certOf = ({ certificate }: { certificate: Uint8Array }) => toPem('CERTIFICATE', certificate)
const FILES = {
  'root.pem': certOf(root),
  'root.key': toPem('PRIVATE KEY', keyOf(root)),
  'other.key': leafKey,
  'old.pem': certOf(old),
  'old.key': toPem('PRIVATE KEY', keyOf(old)),
  'intermediate.pem': certOf(intermediate) + certOf(root),
  'intermediate.key': toPem('PRIVATE KEY', keyOf(intermediate)),
  empty: '',
  garbage: 'nothing of use\n',
}

interface Home {
  readonly folder: string
  readonly file: string
}

function home(t: Test, config: object): Home {
  const folder = testFolder(t, { ...FILES, folder: {} })
  const file = join(folder, 'config.yaml')
  const base = { auth: { psk: { key: 'a-key-of-sixteen-or-more' } }, server: { tls: 'own' } }
  writeFileSync(file, stringify({ ...base, ...config }))
  return { folder, file }
}

async function faultsOf({ file }: Home, withoutSecrets = false): Promise<string[]> {
  return loadCertConfig(file, {}, { startRules: START_RULES, withoutSecrets }).then(
    () => [],
    (error: ConfigError) => error.faults.map(({ path, message }) => `${path} ${message}`),
  )
}

const tls = (certFile: string, keyFile: string) => ({ server: { tls: { certFile, keyFile } } })
const caRoot = (certFile: string, keyFile?: string) => ({
  ca: { root: { certFile, ...(keyFile && { keyFile }) } },
})
const issuerWith = (change: object) => ({
  issuers: [{ name: 'a', type: 'acme', directory: 'https://ca.test/dir', ...change }],
})
const issuer = (caFile: string) =>
  issuerWith({ caFile, challenges: [{ type: 'http-01', listen: { port: 8080 } }] })
const dns = (provider: object) =>
  issuerWith({ challenges: [{ type: 'dns-01', providers: [provider] }] })
const webhook = (caFile: string) => ({
  events: { webhook: { url: 'https://hook.test', secret: 's'.repeat(16), caFile } },
})
const jwtWith = (change: object) => ({
  auth: { jwt: { issuerUrl: 'https://id.test', audience: 'a', ...change } },
})
const jwt = (caFile: string) => jwtWith({ caFile })

/** What may be in the place of a file, and what is said of it. */
const BAD: Readonly<Record<string, RegExp>> = {
  none: /names a file that does not exist \(ENOENT\): .*\/none$/,
  folder: /names a file that is a folder \(EISDIR\): .*\/folder$/,
  empty: /: .*\/empty$/,
  garbage: /: .*\/garbage$/,
}

const PLACES: readonly [path: string, at: (file: string) => object][] = [
  ['/server/tls/certFile', (file) => tls(file, 'root.key')],
  ['/server/tls/keyFile', (file) => tls('root.pem', file)],
  ['/ca/root/certFile', (file) => caRoot(file, 'root.key')],
  ['/ca/root/keyFile', (file) => caRoot('root.pem', file)],
  [
    '/ca/intermediate/certFile',
    (file) => ({ ca: { intermediate: { certFile: file, keyFile: 'intermediate.key' } } }),
  ],
  [
    '/ca/intermediate/keyFile',
    (file) => ({ ca: { intermediate: { certFile: 'intermediate.pem', keyFile: file } } }),
  ],
  ['/issuers/0/caFile', issuer],
  ['/events/webhook/caFile', webhook],
  ['/auth/jwt/caFile', jwt],
  [
    '/auth/jwt/issuers/0/caFile',
    (caFile) => ({ auth: { jwt: { issuers: [jwt(caFile).auth.jwt] } } }),
  ],
]

t.test('a named file that cannot be used is a fault of its key', async (t) => {
  for (const [path, at] of PLACES)
    for (const [name, said] of Object.entries(BAD)) {
      const [fault = '', ...others] = await faultsOf(home(t, at(name)))
      t.ok(fault.startsWith(`${path} `), `${path} ${name}: ${fault}`)
      t.match(fault, said)
      t.strictSame(others, [], `${path} ${name}: alone`)
    }
})

const azure = (tokenPath: string) =>
  dns({
    type: 'azure',
    ...{ subscriptionId: 's', resourceGroup: 'r', tenantId: 't', clientId: 'c', tokenPath },
  })

const TOKENS: readonly [path: string, at: (file: string) => object][] = [
  ['/issuers/0/challenges/0/providers/0/tokenPath', azure],
  ['/auth/jwt/tokenFile', (tokenFile) => jwtWith({ tokenFile })],
  [
    '/auth/jwt/issuers/0/tokenFile',
    (tokenFile) => ({ auth: { jwt: { issuers: [jwtWith({ tokenFile }).auth.jwt] } } }),
  ],
]

t.test('a token that is read at each use has to be there before the first one', async (t) => {
  for (const [path, at] of TOKENS) {
    for (const name of ['none', 'folder', 'empty']) {
      const faults = await faultsOf(home(t, at(name)))
      t.match(faults, [BAD[name]], `${path} ${name}`)
      t.ok(faults.length === 1 && faults[0]?.startsWith(`${path} `), `${path} ${name}: ${faults}`)
    }
    t.strictSame(await faultsOf(home(t, at('garbage'))), [], 'whatever it holds')
    t.strictSame(await faultsOf(home(t, at('none')), true), [], 'unless there are no secrets')
  }
})

t.test('a program that changes DNS records has to be there', async (t) => {
  const PROVIDER = '/issuers/0/challenges/0/providers/0'
  const acmesh = (script: string) => dns({ type: 'acmesh', path: 'acme', script })
  const exec = (...command: string[]) => dns({ type: 'exec', command })
  const table: [config: object, faults: readonly string[]][] = [
    [exec(process.execPath, 'none'), []],
    [exec('looked-up-in-path'), []],
    [exec('/none/hook'), [`${PROVIDER}/command/0 names a program that does not exist: /none/hook`]],
    [
      exec(`${process.execPath}/hook`),
      [`${PROVIDER}/command/0 names a program that does not exist: `],
    ],
    [exec('/'), [`${PROVIDER}/command/0 names a program that is a folder: /`]],
    [acmesh('dns_there'), []],
    [acmesh('dns_none'), [`${PROVIDER}/script names a file that does not exist (ENOENT): `]],
    [
      dns({ type: 'acmesh', path: 'none', script: 'dns_none' }),
      [`${PROVIDER}/path names a folder without acme.sh: `],
    ],
  ]
  for (const [config, expected] of table) {
    const at = home(t, config)
    mkdirSync(join(at.folder, 'acme/dnsapi'), { recursive: true })
    for (const name of ['acme.sh', 'dnsapi/dns_there.sh'])
      writeFileSync(join(at.folder, 'acme', name), '#!/bin/bash\n')
    const faults = await faultsOf(at)
    t.equal(faults.length, expected.length, `${faults}`)
    for (const [index, text] of expected.entries()) t.ok(faults[index]?.startsWith(text), text)
  }
  const elsewhere = await faultsOf(home(t, exec('/none/hook')), true)
  t.strictSame(elsewhere, [], 'on a laptop it may be absent')
})

t.test('files that are there and fit are no fault', async (t) => {
  for (const config of [
    tls('root.pem', 'root.key'),
    caRoot('root.pem', 'root.key'),
    {
      ca: { intermediate: { certFile: 'intermediate.pem', keyFile: 'intermediate.key' } },
    },
    issuer('root.pem'),
    webhook('root.pem'),
    jwt('root.pem'),
  ])
    t.strictSame(await faultsOf(home(t, config)), [], JSON.stringify(config))
})

t.test('a key of another certificate, and what may not sign', async (t) => {
  const table: [config: object, fault: RegExp][] = [
    [tls('root.pem', 'other.key'), /^\/server\/tls\/keyFile names a key that is not that of certF/],
    [caRoot('root.pem', 'other.key'), /^\/ca\/root\/keyFile the private key is not that of /],
    [caRoot('old.pem', 'root.key'), /^\/ca\/root\/certFile .*valid .* to /],
    [
      { ca: { intermediate: { certFile: 'intermediate.pem', keyFile: 'root.key' } } },
      /^\/ca\/intermediate\/keyFile the private key is not that of /,
    ],
    [caRoot('root.pem'), /^\/ca\/root needs a keyFile at the first start/],
  ]
  for (const [config, fault] of table) t.match(await faultsOf(home(t, config)), [fault])
})

const storage = { storage: { path: 'data', masterKeyFile: 'keys/master.key' } }

/** A home with a store in it, as a service that runs has it. */
async function running(t: Test, config: object = {}): Promise<Home> {
  const at = home(t, { ...storage, ...config })
  mkdirSync(join(at.folder, 'keys'))
  writeFileSync(join(at.folder, 'keys/master.key'), KEY, { mode: 0o600 })
  const folder = join(at.folder, 'data')
  const first = await openSqliteStore({ folder })
  await openKeyring({ masterKeyFile: join(at.folder, 'keys/master.key'), folder, store: first })
  await first.close()
  const store = await openSqliteStore({ folder })
  t.teardown(() => store.close())
  return at
}

t.test('a store that was killed before it had a master key is no fault', async (t) => {
  const at = home(t, storage)
  const store = await openSqliteStore({ folder: join(at.folder, 'data') })
  await store.close()
  t.strictSame(await faultsOf(at), [])
})

t.test('beside a running service nothing is a fault and nothing changes', async (t) => {
  const at = await running(t)
  const look = () =>
    readdirSync(at.folder, { recursive: true, encoding: 'utf8' })
      .toSorted()
      .map((name) => {
        const { size, mtimeMs, ino } = statSync(join(at.folder, name))
        return { name, size, mtimeMs, ino }
      })
  const before = look()
  t.strictSame(await faultsOf(at), [])
  t.strictSame(look(), before)
})

t.test('before a first start nothing is made', async (t) => {
  const at = home(t, storage)
  const before = readdirSync(at.folder)
  t.strictSame(await faultsOf(at), [])
  t.strictSame(readdirSync(at.folder), before)
})

t.test('the master key and the store', async (t) => {
  const table: [why: string, change: (folder: string) => void, fault: RegExp, config?: object][] = [
    [
      'open to others',
      (folder) => chmodSync(join(folder, 'keys/master.key'), 0o644),
      /^\/storage\/masterKeyFile .*master\.key is open to other users/,
    ],
    [
      'not a key',
      (folder) => writeFileSync(join(folder, 'keys/master.key'), 'short'),
      /^\/storage\/masterKeyFile .* does not hold 32 bytes in base64/,
    ],
    [
      'a folder as key',
      () => {},
      /^\/storage\/masterKeyFile names a file that is a folder \(EISDIR\): /,
      { storage: { path: 'data', masterKeyFile: 'folder' } },
    ],
    [
      'gone',
      () => {},
      /^\/storage\/masterKeyFile names no file, and the store needs its key: .*none$/,
      { storage: { path: 'data', masterKeyFile: 'none' } },
    ],
    [
      'a file as folder',
      () => {},
      /^\/storage\/path needs a folder, and this is none: .*\/garbage$/,
      { storage: { path: 'garbage', masterKeyFile: 'keys/master.key' } },
    ],
    ...['/proc/x/data', '/sys/fs'].map((path): (typeof table)[number] => [
      `not on a disk: ${path}`,
      () => {},
      /^\/storage\/path needs a folder (on a disk|that this user may write to)/,
      { storage: { path, masterKeyFile: 'keys/master.key' } },
    ]),
    [
      'another file in the place of the store',
      (folder) => writeFileSync(join(folder, 'folder/store.db'), 'x'.repeat(200)),
      /^\/storage\/path holds a file that is not a store of this service: /,
      { storage: { path: 'folder', masterKeyFile: 'keys/master.key' } },
    ],
  ]
  for (const [why, change, fault, config] of table) {
    const at = await running(t, config)
    change(at.folder)
    const faults = await faultsOf(at)
    t.match(faults, [fault], why)
    t.equal(faults.length, 1, `${why}: alone`)
  }
})

t.test('with a store the key of the root may be kept elsewhere', async (t) => {
  const at = await running(t, caRoot('root.pem', 'elsewhere.key'))
  t.strictSame(await faultsOf(at), [])
  const wrong = await running(t, caRoot('root.pem', 'other.key'))
  t.match(await faultsOf(wrong), [/^\/ca\/root\/keyFile the private key is not that of /])
})

t.test(
  'whether there is a store is not known, and the files of the CA are judged all the same',
  async (t) => {
    const storage = { urlFile: 'none' }
    const both = {
      root: { certFile: 'no.pem' },
      intermediate: { certFile: 'no.pem', keyFile: 'no.key' },
    }
    const faults = await faultsOf(home(t, { storage, ca: both }))
    t.strictSame(
      faults.map((fault) => fault.split(' ')[0]),
      [
        ...['/storage/urlFile', '/ca/root/certFile'],
        ...['/ca/intermediate/certFile', '/ca/intermediate/keyFile'],
      ],
    )
  },
)

t.test('a CA that is over is a fault at the first start, and none with a store', async (t) => {
  const over = { ca: { intermediate: { certFile: 'old.pem', keyFile: 'old.key' } } }
  for (const config of [over, caRoot('old.pem', 'old.key')]) {
    const [fault, ...others] = await faultsOf(home(t, config))
    t.match(fault, /^\/ca\/(root|intermediate)\/certFile .*valid .* to /)
    t.strictSame(others, [])
    t.strictSame(await faultsOf(await running(t, config)), [])
  }
})

t.test('without secrets files may be absent, and others are judged', async (t) => {
  const at = home(t, {
    ...tls('root.pem', 'none'),
    ...caRoot('none', 'garbage'),
    ...issuer('none'),
  })
  t.match(await faultsOf(at, true), [/^\/ca\/root\/keyFile /])
  t.equal((await faultsOf(at)).length, 4)
})
