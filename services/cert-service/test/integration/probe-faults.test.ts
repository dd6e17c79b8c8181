// Faults at real servers: Debian's packages nginx and haproxy, those of mail-servers.ts, and PostgreSQL.
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { probe } from '@gatehouse/tls-probe'
import t, { type Test } from 'tap'
import { chainOf } from '../../../../packages/tls-probe/test/servers.ts'
import { temporaryPaths } from '../../../../scripts/test/nginx.ts'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { DAY, rest, start } from '../helpers/app.ts'
import { startDovecot, startPostfix, userId } from '../helpers/mail-servers.ts'
import { startProbing } from '../helpers/probing.ts'

const isRoot = process.getuid?.() === 0
const PROGRAMS = ['nginx', 'haproxy', 'postfix', 'dovecot']
const absent = PROGRAMS.find((program) => spawnSync('which', [program]).status !== 0)
const skip = (!isRoot && 'it takes root') || (absent !== undefined && `there is no ${absent}`)

/** A certificate and its key, as a server is given them. */
interface Pair {
  readonly chain: string
  readonly key: string
}

/** A virtual server of nginx at an address, with pairs of files. */
interface Site {
  readonly address: string
  readonly name: string
  readonly pairs: readonly Pair[]
  readonly more?: string
}

async function nginx(t: Test, folder: string, port: number, sites: readonly Site[]) {
  const servers = sites.map(({ address, name, pairs, more = '' }, n) => {
    const files = pairs.map(({ chain, key }, i) => {
      const [chainFile, keyFile] = [join(folder, `${n}-${i}.pem`), join(folder, `${n}-${i}.key`)]
      writeFileSync(chainFile, chain)
      writeFileSync(keyFile, key)
      return `ssl_certificate ${chainFile}; ssl_certificate_key ${keyFile};`
    })
    const tls = pairs.length > 0 || more.includes('ssl') ? 'ssl' : ''
    return `server { listen ${address}:${port} ${tls}; server_name ${name}; ${files.join(' ')} ${more} }`
  })
  const conf = join(folder, 'nginx.conf')
  writeFileSync(
    conf,
    `daemon off; pid ${folder}/nginx.pid; error_log stderr warn; events { }
http { access_log off; ${temporaryPaths(folder)} server { listen 127.0.0.1:${port}; }\n${servers.join('\n')}\n}`,
  )
  const options = { command: 'nginx', args: ['-e', 'stderr', '-c', conf], folder, port }
  await startProcess(t, options)
}

async function haproxy(
  t: Test,
  folder: string,
  port: number,
  pairs: readonly (Pair & { bind: string })[],
) {
  const binds = pairs.map(({ bind, chain, key }, n) => {
    const file = join(folder, `haproxy-${n}.pem`)
    writeFileSync(file, key + chain)
    return `  bind ${bind.replace('{file}', file)}`
  })
  const conf = join(folder, 'haproxy.cfg')
  writeFileSync(
    conf,
    `defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend https
  bind 127.0.0.1:${port}
${binds.join('\n')}
`,
  )
  await startProcess(t, { command: 'haproxy', args: ['-db', '-f', conf], folder, port })
}

/** Has PostgreSQL read its files again. Sessions that begin later know of when it did. */
async function reload(database: PostgresServer): Promise<void> {
  const loadTime = async () =>
    (await database.sql('SELECT pg_conf_load_time()::text AS time'))[0]?.time
  const previous = await loadTime()
  await database.sql('SELECT pg_reload_conf()')
  await until(async () => (await loadTime()) !== previous)
}

/** Has PostgreSQL read a pair from files, and gives these. */
async function enableTls(database: PostgresServer, folder: string, pair: Pair) {
  const [chain, key] = [join(folder, 'chain.pem'), join(folder, 'key.pem')]
  writeFileSync(chain, pair.chain)
  writeFileSync(key, pair.key, { mode: 0o600 })
  chownSync(key, userId('nobody'), 0)
  await database.sql(`ALTER SYSTEM SET ssl_cert_file = '${chain}'`)
  await database.sql(`ALTER SYSTEM SET ssl_key_file = '${key}'`)
  await database.sql('ALTER SYSTEM SET ssl = on')
  await reload(database)
  return { chain, key }
}

/** Names, and what is found under each; `address:port key state`, sorted. */
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  'right.test': ['10.13.24.1 newest'],
  'not-reloaded.test': ['10.13.24.2 older'],
  'wrong-site.test': ['10.13.24.3 wrongName'],
  'leaf-alone.test': ['10.13.24.4 incomplete'],
  'revoked.test': ['10.13.24.5 revoked'],
  'ended.test': ['10.13.24.6 ended'],
  'other-ca.test': ['10.13.24.7 other'],
  'default.test': ['10.13.24.8 wrongName'],
  'one-of-two.test': ['10.13.24.10 older', '10.13.24.9 newest'],
  'old-rsa.test': ['10.13.24.11 newest', '10.13.24.11 rsa older'],
  'old-ec.test': ['10.13.24.12 older', '10.13.24.12 rsa newest'],
  'closed.test': ['10.13.24.13 unreachable'],
  'plain.test': ['10.13.24.14 unreachable'],
  'rejected.test': ['10.13.24.15 unreachable'],
  'clients.test': ['10.13.24.16 older'],
  'strict.test': ['10.13.24.17 unreachable'],
  'wildcard.test': ['10.13.24.18 other'],
  'mail.test': ['10.13.24.19 older', '10.13.24.19 older'],
  'imap.test': ['10.13.24.20 older'],
  'db.test': ['10.13.24.21 older'],
  'plain-db.test': ['10.13.24.22 unreachable'],
  'no-address.test': [' unreachable'],
  'outside.test': ['192.0.2.1 outside'],
}

t.test('each fault of a server is named within two looks', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const [port, haproxyPort] = [await freePort(), await freePort()]
  const [database, plainDatabase] = await Promise.all(
    ['127.13.24.21', '127.13.24.22'].map((address) =>
      startPostgres(t, { settings: { listen_addresses: `127.0.0.1,${address}` } }),
    ) as [Promise<PostgresServer>, Promise<PostgresServer>],
  )
  const targets = [
    { names: ['db.test'], ports: [`:${database.port} postgres`] },
    { names: ['plain-db.test'], ports: [`:${plainDatabase.port} postgres`] },
    { names: ['mail.test'], ports: [':25', ':465'] },
    { names: ['imap.test'], ports: [':143'] },
    { names: ['clients.test', 'strict.test'], ports: [`:${haproxyPort}`] },
    { names: ['*'], ports: [`:${port}`] },
  ]
  // What is never connected to stands for what may be.
  const { dns, pass, call, service, events, clock } = await startProbing(
    t,
    { probe: { networks: ['10.0.0.0/8'], targets } },
    (target) => probe({ ...target, address: target.address.replace(/^10\./, '127.') }),
  )
  const { store } = service
  service.start()
  const get = async (domain: string, more: object = {}): Promise<Pair> => {
    const { status, body } = await call('POST', '/api/certificate', { domain, ...more })
    if (status !== 200) throw new Error(`${domain}: ${status}`)
    return { chain: body.certificate, key: body.privateKey }
  }
  mkdirSync(join(folder, 'other'))
  const other = await start(t, {}, { folder: join(folder, 'other'), clock })
  const elsewhere = async (domain: string, ...names: string[]): Promise<Pair> => {
    const { body } = await other.call('POST', '/api/certificate', { domain, names })
    return { chain: body.certificate, key: body.privateKey }
  }
  for (const [name, places] of Object.entries(EXPECTED)) {
    const addresses = places.map((place) => place.split(' ')[0] ?? '').filter(Boolean)
    dns.set(name, [...new Set(addresses)])
  }
  const ended = await get('ended.test')
  await pass(4 * DAY)
  const old = new Map<string, Pair>()
  for (const name of Object.keys(EXPECTED))
    if (name !== 'ended.test') old.set(name, await get(name))
  for (const name of ['old-rsa.test', 'old-ec.test'])
    old.set(`rsa ${name}`, await get(name, { keyType: 'rsa2048' }))
  const of = (name: string) => old.get(name) as Pair
  await pass(4 * DAY)
  await rest(clock, service.issuance)
  // Whatever is fetched now is the newest.
  const newest = new Map<string, Pair>()
  for (const name of Object.keys(EXPECTED)) newest.set(name, await get(name))
  for (const name of ['old-rsa.test', 'old-ec.test'])
    newest.set(`rsa ${name}`, await get(name, { keyType: 'rsa2048' }))
  const newOf = (name: string) => newest.get(name) as Pair
  const revoked = newOf('revoked.test')
  await call('POST', '/api/certificate/revoke', { domain: 'revoked.test' })
  const leaf = newOf('leaf-alone.test')
  const site = (n: number, name: string, ...pairs: readonly Pair[]) => {
    return { address: `127.13.24.${n}`, name, pairs }
  }
  await nginx(t, folder, port, [
    site(1, 'right.test', newOf('right.test')),
    site(2, 'not-reloaded.test', of('not-reloaded.test')),
    site(3, 'wrong-site.test', newOf('right.test')),
    site(4, 'leaf-alone.test', {
      ...leaf,
      chain: leaf.chain.split(/(?<=END CERTIFICATE-----\n)/)[0] ?? '',
    }),
    site(5, 'revoked.test', revoked),
    site(6, 'ended.test', ended),
    site(7, 'other-ca.test', await elsewhere('other-ca.test')),
    site(8, 'default.test', await elsewhere('localhost')),
    site(9, 'one-of-two.test', newOf('one-of-two.test')),
    site(10, 'one-of-two.test', of('one-of-two.test')),
    site(11, 'old-rsa.test', newOf('old-rsa.test'), of('rsa old-rsa.test')),
    site(12, 'old-ec.test', of('old-ec.test'), newOf('rsa old-ec.test')),
    site(14, 'plain.test'),
    { ...site(15, 'rejected.test'), more: 'ssl_reject_handshake on;' },
    site(18, 'wildcard.test', await elsewhere('wildcard.test', '*.wildcard.test')),
  ])
  const rootFile = join(folder, 'root.pem')
  writeFileSync(rootFile, chainOf(service.ca.root() as Uint8Array))
  await haproxy(t, folder, haproxyPort, [
    {
      ...of('clients.test'),
      bind: `127.13.24.16:${haproxyPort} ssl crt {file} ca-file ${rootFile} verify required`,
    },
    { ...newOf('right.test'), bind: `127.13.24.17:${haproxyPort} ssl crt {file} strict-sni` },
  ])
  const mail = of('mail.test')
  const files = {
    mail: join(folder, 'mail.pem'),
    chain: join(folder, 'imap.pem'),
    key: join(folder, 'imap.key'),
  }
  writeFileSync(files.mail, mail.key + mail.chain, { mode: 0o600 })
  writeFileSync(files.chain, of('imap.test').chain)
  writeFileSync(files.key, of('imap.test').key, { mode: 0o600 })
  const [smtp, imap] = [join(folder, 'smtp'), join(folder, 'imap')]
  for (const home of [smtp, imap]) mkdirSync(home)
  await startPostfix(t, smtp, {
    address: '127.13.24.19',
    hostname: 'mail.test',
    certificate: files.mail,
  })
  await startDovecot(t, imap, { address: '127.13.24.20', certificate: files.chain, key: files.key })
  const tls = await enableTls(database, folder, of('db.test'))
  // It keeps what it has read.
  writeFileSync(tls.chain, newOf('db.test').chain)
  writeFileSync(tls.key, newOf('db.test').key)
  await pass()
  await pass()
  const seen = async (name: string) => {
    const rows = await store.listProbes([name])
    const texts = rows.map(
      ({ address, keyType, state }) => `${address} ${keyType && `${keyType} `}${state}`,
    )
    return texts.toSorted()
  }
  for (const [name, places] of Object.entries(EXPECTED))
    t.same(await seen(name), places.toSorted(), name)
  const told = new Set(
    events.flatMap((event) => (event.type === 'not-served' ? event.probe.name : [])),
  )
  t.same([...told].toSorted(), [
    ...['clients.test', 'db.test', 'ended.test', 'imap.test', 'mail.test', 'not-reloaded.test'],
    ...['old-ec.test', 'old-rsa.test', 'one-of-two.test', 'other-ca.test', 'revoked.test'],
    'wildcard.test',
  ])
  await reload(database)
  await pass()
  t.same(await seen('db.test'), ['10.13.24.21 newest'], 'PostgreSQL has read the files again')
})

t.end()
