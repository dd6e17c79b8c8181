import { randomBytes } from 'node:crypto'
import { testFolder } from '@gatehouse/service-kit/testing'
import { indexable } from '@gatehouse/store'
import type { Test } from 'tap'
import { openSqliteStore } from '../../src/engines/sqlite.ts'
import { isOrder, listAll } from '../../src/port/listing.ts'
import type {
  AuditEntry,
  NewCertificate,
  OrderRecord,
  ProbeRecord,
  Store,
} from '../../src/port/store.ts'

/** When the tests take place. */
export const NOW = Date.UTC(2030, 0, 1)

/** A store in a folder of its own, closed after the test. */
export async function testStore(t: Test): Promise<{
  store: Store
  folder: string
  /** Lets the service run for so many milliseconds. */
  pass(ms: number): void
}> {
  const folder = testFolder(t)
  let passed = 0
  const store = await openSqliteStore({ folder, elapsed: () => passed })
  t.teardown(() => store.close().catch(() => {}))
  return {
    store,
    folder,
    pass(ms) {
      passed += ms
    },
  }
}

/** What a store keeps of a certificate; its DER is only bytes here. */
export function newCertificate(overrides: Partial<NewCertificate> = {}): NewCertificate {
  const names = overrides.names ?? ['app.example.com']
  return {
    requestKey: indexable(`ca|server|p256|${names.join()}`),
    issuer: 'ca',
    names,
    keyType: 'p256',
    serialNumber: randomBytes(16).toString('hex'),
    certificate: randomBytes(500),
    chain: CHAIN,
    sealedKey: randomBytes(180),
    csr: null,
    notBefore: NOW,
    notAfter: NOW + 7 * 86_400_000,
    renewAt: NOW + 3 * 86_400_000,
    fetchedAt: NOW,
    ...overrides,
  }
}

export function newOrder(overrides: Partial<OrderRecord> = {}): OrderRecord {
  return {
    id: 'order-1',
    requestKey: 'ca|server|p256|app.example.com',
    issuer: 'ca',
    names: ['app.example.com'],
    keyType: 'p256',
    csr: null,
    status: 'pending',
    step: 'asked',
    since: NOW,
    failures: 0,
    lastError: null,
    nextTryAt: null,
    ...overrides,
  }
}

export function newAudit(overrides: Partial<AuditEntry> = {}): AuditEntry {
  return { at: NOW, action: 'issue', actor: 'psk:test', names: ['app.example.com'], ...overrides }
}

/** What was seen at a place under a name. */
export function newProbe(overrides: Partial<ProbeRecord> = {}): Omit<ProbeRecord, 'id'> {
  return {
    ...{ name: 'app.example.com', host: 'app.example.com', address: '10.0.0.1' },
    ...{ port: 443, protocol: 'tls', keyType: '', reporter: '', state: 'newest' },
    ...{ sha256: 'a'.repeat(64), issuer: 'CN=Test', notBefore: NOW, notAfter: NOW + 7 },
    ...{ since: NOW, seenAt: NOW, failures: 0 },
    ...overrides,
  }
}

/** The intermediate that signs {@link newCertificate}. */
export const CHAIN: readonly Buffer[] = [randomBytes(450)]

/** Those of names with a certificate and of names without, the most urgent first. */
export async function failedOrders(store: Store): Promise<readonly OrderRecord[]> {
  const listing = { order: 'expiry', state: 'failing', now: NOW } as const
  const all = (await listAll(store, listing, { limit: 100 })).map((listed) =>
    isOrder(listed) ? listed : store.findOrderByRequestKey(listed.requestKey),
  )
  return (await Promise.all(all)).flatMap((order) => order ?? [])
}
