import type { ChildProcess } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { openKeyring } from '../../src/sealing/keyring.ts'
import { checkIntegrity, connect, openStore, storeFile } from '../../src/store/open.ts'
import type { AuditRecord, CertificateRecord, Store } from '../../src/store/store.ts'
import {
  type Answer,
  createHome,
  type Home,
  obtain,
  readyUrl,
  spawnMain,
  startService,
} from './service.ts'

const CALLERS = 8
/** Of the kills, one in so many hits the start, and one the first start of all. */
const START_SHARE = 5
const START_MS = 800
const LOAD_MS = 300

/** Kills a service under load that many times, with no hand between, then looks at what it kept. */
export async function killAndLook(t: Test, kills: number): Promise<void> {
  const home = createHome(join(t.testdir(), 'service'))
  const fresh = createHome(join(t.testdirName, 'fresh'))
  const received = new Map<string, Answer['body']>()
  for (let i = 0; i < kills; i++) {
    if (i % START_SHARE === 1) await kill(t, home, atStart)
    else if (i % START_SHARE === 3) await killFirstStart(t, fresh)
    else await kill(t, home, (child) => underLoad(child, `r${i}`, received))
  }

  for (const place of [home, fresh]) {
    const service = await startService(t, place)
    t.equal((await service.obtain('after.example')).status, 200, 'it comes back by itself')
    await service.stop()
  }
  t.comment(`${kills} kills, ${received.size} certificates received`)
  t.ok(received.size >= kills, 'the kills hit a service at work')
  await look(t, home, received)
}

/** Starts the service and kills it at the moment of `timing`, which gives what is to end after the kill. */
async function kill(
  t: Test,
  home: Home,
  timing: (child: ChildProcess) => Promise<(() => Promise<unknown>) | undefined>,
): Promise<void> {
  const child = spawnMain(t, home, ['serve'])
  const exited = once(child, 'exit')
  const settle = await timing(child)
  t.equal(child.exitCode, null, 'it runs until it is killed')
  child.kill('SIGKILL')
  await exited
  await settle?.()
}

async function atStart(): Promise<undefined> {
  await sleep(Math.random() * START_MS)
}

async function underLoad(
  child: ChildProcess,
  round: string,
  received: Map<string, Answer['body']>,
): Promise<() => Promise<unknown>> {
  const url = await readyUrl(child)
  const load = url === undefined ? [] : callers(url, round, received)
  await sleep(Math.random() * LOAD_MS)
  return () => Promise.all(load)
}

/** Every other time the next start finds what this one left, else nothing. */
async function killFirstStart(t: Test, home: Home): Promise<void> {
  if (Math.random() < 0.5) rmSync(home.base, { recursive: true })
  createHome(home.base)
  await kill(t, home, atStart)
}

function callers(
  url: string,
  round: string,
  received: Map<string, Answer['body']>,
): Promise<void>[] {
  return Array.from({ length: CALLERS }, async (_, caller) => {
    for (let i = 0; ; i++) {
      const domain = `${round}-${caller}-${i}.example`
      const answer = await obtain(url, domain).catch(() => undefined)
      if (answer?.status !== 200) return
      received.set(domain, answer.body)
      const again = await obtain(url, domain).catch(() => undefined)
      if (again?.status !== 200) return
      received.set(domain, again.body)
    }
  })
}

async function look(t: Test, home: Home, received: Map<string, Answer['body']>): Promise<void> {
  const { folder, masterKeyFile } = home
  const sqlite = connect(storeFile(folder))
  t.doesNotThrow(() => checkIntegrity(sqlite), 'every page and row is sound')
  sqlite.close()

  const store = await openStore({ folder })
  const keyring = await openKeyring({ folder, masterKeyFile, store })
  const stored = await all<CertificateRecord>((last) =>
    store.list({ after: last?.id ?? 0, limit: 1000 }),
  )
  const byDomain = new Map(stored.map((record) => [record.names[0], record]))
  const audit = await auditRows(store)
  const issued = serialsOf(audit, ['issue', 'renew'])
  const handedOut = serialsOf(audit, ['hand-out'])
  const faults: string[] = []

  for (const [domain, { serialNumber, certificate, privateKey, cached }] of received) {
    const record = byDomain.get(domain)
    const der = new X509Certificate(certificate).raw
    if (!record?.sealedKey || !der.equals(record.certificate)) {
      faults.push(`${domain} ${serialNumber} was lost`)
      continue
    }
    const told = cached ? handedOut : issued
    if (!told.has(serialNumber)) faults.push(`${domain} ${serialNumber}: no row of its hand-out`)
    const pkcs8 = keyring.open(record.sealedKey, record.certificate)
    const pem = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
    if (pem.export({ format: 'pem', type: 'pkcs8' }) !== privateKey) faults.push(`${domain}: key`)
  }
  const unseen = new Set(issued)
  for (const { names, serialNumber } of stored) {
    if (!unseen.delete(serialNumber)) faults.push(`${names[0]} ${serialNumber} has no audit row`)
  }
  for (const serialNumber of unseen) faults.push(`${serialNumber} is audited, but not there`)
  await store.close()

  t.same(faults, [], 'what a client received is there, and nothing is there by half')
  const serials = new Set(stored.map(({ serialNumber }) => serialNumber))
  t.equal(serials.size, stored.length, 'serial numbers are unique')
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
