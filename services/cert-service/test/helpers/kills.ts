import { createPrivateKey, X509Certificate } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AuditRecord, CertificateRecord, Store } from '@gatehouse/cert-store/port'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import {
  checkIntegrity,
  connect,
  openSqliteStore,
  storeFile,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { openKeyring } from '../../../../packages/cert-store/src/sealing/master-key.ts'
import type { Running } from '../../../../scripts/test/running.ts'
import { withClock } from './clock.ts'
import {
  type Answer,
  createHome,
  findSerial,
  type Home,
  obtain,
  type RunningService,
  readyUrl,
  revoke,
  serveMain,
  startService,
} from './service.ts'

const CALLERS = 8
/** Of the kills, one in so many hits the start, and one the first start of all. */
const START_SHARE = 5
const START_MS = 800
const LOAD_MS = 300
/** Of the names that a caller obtains, one in so many is revoked. */
const REVOKED_SHARE = 2
/** After each start, so many of the names that were revoked last are asked for. */
const REVOKED_LOOK = 20

/** What the clock of a start is off by, where clocks can be moved: more often right than not. */
const OFFSETS = ['+0', '+0', '+0', '+0', '-2h', '+5d', '+45d', '+340d']

/**
 * Kills a service under load that many times, with no hand between, then looks at what it kept. With
 * `clocks` each start has another time of day.
 */
export async function killAndLook(
  t: Test,
  kills: number,
  { clocks = false }: { clocks?: boolean } = {},
): Promise<void> {
  const home = createHome(join(testFolder(t), 'service'))
  const fresh = createHome(join(t.testdirName, 'fresh'))
  const seen: Seen = { received: new Map(), revoked: new Map(), revived: new Set() }
  for (let i = 0; i < kills; i++) {
    // The CA itself is made while the clock is right.
    const offset = clocks && i > 1 ? OFFSETS[Math.floor(Math.random() * OFFSETS.length)] : undefined
    const env = offset === undefined ? {} : withClock(offset)
    if (i % START_SHARE === 1) await kill(t, home, atStart, env)
    else if (i % START_SHARE === 3) await killFirstStart(t, fresh)
    else await kill(t, home, (running) => underLoad(running, `r${i}`, seen), env)
  }

  for (const place of [home, fresh]) {
    const service = await startService(t, place)
    t.equal((await service.obtain('after.example')).status, 200, 'it comes back by itself')
    if (place === home) await lookForRevived(service.url, seen, seen.revoked.size)
    if (clocks) await untilAllHold(service)
    await service.stop()
  }
  const { received, revoked, revived } = seen
  t.same([...revived], [], 'nothing that was revoked is answered again')
  // Whatever is killed that often revokes something; a few kills need not.
  if (kills >= 50) t.ok(revoked.size > 0, 'the kills hit revocations, too')
  t.comment(`${kills} kills, ${received.size} certificates received, ${revoked.size} revoked`)
  t.ok(received.size >= Math.floor((kills * 3) / START_SHARE), 'the kills hit a service at work')
  await look(t, home, seen)
}

/** What clients were told. */
interface Seen {
  readonly received: Map<string, Answer['body']>
  /** The first name of each serial number. */
  readonly revoked: Map<string, string>
  /** What was answered after it was revoked: serial numbers. */
  readonly revived: Set<string>
}

/** Waits until what other clocks dated is renewed. */
async function untilAllHold({ url }: RunningService): Promise<void> {
  for (let n = 0; n < 2_400; n += 1) {
    if ((await (await fetch(`${url}/readyz`)).text()).includes('"degraded":[]')) return
    await sleep(250)
  }
}

/** Starts the service and kills it at the moment of `timing`, which gives what is to end after the kill. */
async function kill(
  t: Test,
  home: Home,
  timing: (running: Running) => Promise<(() => Promise<unknown>) | undefined>,
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  const running = serveMain(t, home, [], env)
  const { child, ended } = running
  const settle = await timing(running)
  t.equal(child.exitCode, null, 'it runs until it is killed')
  child.kill('SIGKILL')
  await ended
  await settle?.()
}

async function atStart(): Promise<undefined> {
  await sleep(Math.random() * START_MS)
}

async function underLoad(
  running: Running,
  round: string,
  seen: Seen,
): Promise<() => Promise<unknown>> {
  const url = await readyUrl(running)
  if (url !== undefined) await lookForRevived(url, seen, REVOKED_LOOK)
  const load = url === undefined ? [] : callers(url, round, seen)
  await Promise.race(load.map(({ first }) => first))
  await sleep(Math.random() * LOAD_MS)
  return () => Promise.all(load.map(({ ended }) => ended))
}

/** Asks for the certificates of names whose last one was revoked, the latest ones. */
async function lookForRevived(url: string, { revoked, revived }: Seen, limit: number) {
  for (const domain of new Set([...revoked.values()].slice(-limit))) {
    const serialNumber = await findSerial(url, domain)
    if (serialNumber !== undefined && revoked.has(serialNumber)) revived.add(serialNumber)
  }
}

/** Every other time the next start finds what this one left, else nothing. */
async function killFirstStart(t: Test, home: Home): Promise<void> {
  if (Math.random() < 0.5) rmSync(home.base, { recursive: true })
  createHome(home.base)
  await kill(t, home, atStart)
}

/** Callers that ask until nobody answers: for a new certificate, for the same again, for its end. */
function callers(url: string, round: string, { received, revoked }: Seen) {
  return Array.from({ length: CALLERS }, (_, caller) => {
    const { promise: first, resolve } = Promise.withResolvers<void>()
    const work = async () => {
      for (let i = 0; ; i++) {
        const domain = `${round}-${caller}-${i}.example`
        for (let n = 0; n < 2; n++) {
          const answer = await obtain(url, domain).catch(() => undefined)
          if (answer?.status !== 200) return
          received.set(domain, answer.body)
          resolve()
        }
        if ((i + caller) % REVOKED_SHARE !== 0) continue
        received.delete(domain)
        const serialNumbers = await revoke(url, domain).catch(() => undefined)
        if (!serialNumbers) return
        for (const serialNumber of serialNumbers) revoked.set(serialNumber, domain)
      }
    }
    return { first, ended: work().finally(resolve) }
  })
}

async function look(t: Test, home: Home, { received, revoked }: Seen): Promise<void> {
  const { folder, masterKeyFile } = home
  const sqlite = connect(storeFile(folder))
  t.doesNotThrow(() => checkIntegrity(sqlite), 'every page and row is sound')
  const rows = sqlite
    .prepare('SELECT serial_number AS serial, revoked_at AS at FROM certificates')
    .all() as { serial: string; at: number | null }[]
  sqlite.close()

  const store = await openSqliteStore({ folder })
  const keyring = await openKeyring({ folder, masterKeyFile, store })
  const stored = await all<CertificateRecord>((last) =>
    store.list({ after: last?.id ?? 0, limit: 1000 }),
  )
  const byDomain = new Map(stored.map((record) => [record.names[0], record]))
  const audit = await auditRows(store)
  const issued = serialsOf(audit, ['issue', 'renew'])
  const handedOut = serialsOf(audit, ['hand-out'])
  const listed = await listedSerials(store)
  const known = new Set(rows.map(({ serial }) => serial))
  const faults: string[] = []

  for (const [domain, { serialNumber, certificate, privateKey, cached }] of received) {
    const record = byDomain.get(domain)
    if (!record?.sealedKey || !known.has(serialNumber)) {
      faults.push(`${domain} ${serialNumber} was lost`)
      continue
    }
    const told = cached ? handedOut : issued
    if (!told.has(serialNumber)) faults.push(`${domain} ${serialNumber}: no row of its hand-out`)
    if (record.notBefore > Date.now() || record.notAfter < Date.now())
      faults.push(`${domain} ${record.serialNumber} does not hold now`)
    const pkcs8 = keyring.open(record.sealedKey, record.certificate)
    const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
    if (!new X509Certificate(record.certificate).checkPrivateKey(key))
      faults.push(`${domain}: the key is another one`)
    // Unless another clock had it renewed since.
    if (record.serialNumber !== serialNumber) continue
    const isSame = new X509Certificate(certificate).raw.equals(record.certificate)
    if (!isSame || key.export({ format: 'pem', type: 'pkcs8' }) !== privateKey)
      faults.push(`${domain}: not what was received`)
  }
  for (const serialNumber of revoked.keys())
    if (!listed.has(serialNumber)) faults.push(`${serialNumber} is not on the list any more`)
  for (const { serial, at } of rows) {
    if (!issued.delete(serial)) faults.push(`${serial} has no audit row`)
    if (at === null && revoked.has(serial)) faults.push(`${serial} is not revoked any more`)
  }
  for (const serialNumber of issued) faults.push(`${serialNumber} is audited, but not there`)
  await store.close()

  t.same(faults, [], 'what a client was told is there, and nothing is there by half')
  t.equal(known.size, rows.length, 'serial numbers are unique')
}

async function listedSerials(store: Store): Promise<Set<string>> {
  const serials = new Set<string>()
  for (const { certificate } of await store.listAuthorities())
    for (const row of await store.listRevoked(certificate, Date.now()))
      serials.add(row.serialNumber)
  return serials
}

function auditRows(store: Store): Promise<AuditRecord[]> {
  return all((last) => store.listAudit({ limit: 1000, ...(last && { before: last.id }) }))
}

function serialsOf(
  rows: readonly AuditRecord[],
  actions: readonly AuditRecord['action'][],
): Set<string | undefined> {
  const found = rows.filter(({ action }) => actions.includes(action))
  return new Set(found.map(({ serialNumber }) => serialNumber))
}

/** Every page of a listing. */
async function all<T>(next: (last: T | undefined) => Promise<readonly T[]>): Promise<T[]> {
  const items: T[] = []
  for (let page = await next(undefined); page.length > 0; page = await next(items.at(-1))) {
    items.push(...page)
  }
  return items
}
