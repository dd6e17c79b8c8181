import { listAll } from '../../src/port/listing.ts'
import type {
  CertificateState,
  ListOrder,
  ServedAccount,
  ServedOrder,
} from '../../src/port/store.ts'
import type { Opened } from './engines.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder, newProbe } from './store.ts'

const DAY = 86_400_000
const ACCOUNT: ServedAccount = {
  ...{
    id: 'a',
    caller: 'web',
    boundBy: 'first',
    thumbprint: 'a',
    jwk: '{}',
    status: 'valid',
    contact: [],
    client: null,
  },
  ...{ remoteAddress: null, createdAt: NOW, usedAt: NOW },
}
const ORDER: ServedOrder = {
  ...{
    id: 'o',
    account: 'a',
    wanted: 'a',
    names: ['app.example.com'],
    profile: 'server',
    profileName: null,
  },
  ...{
    replaces: null,
    notAfter: null,
    status: 'ready',
    proofs: null,
    csr: null,
    fingerprint: null,
    error: null,
  },
  ...{ at: NOW, expiresAt: NOW + DAY },
}
const ORDERS: readonly ListOrder[] = ['next', 'expiry', 'name', 'newest']
const STATES: readonly (CertificateState | 'unserved' | undefined)[] = [
  ...[undefined, 'renews', 'due', 'unrenewed', 'failing', 'ended', 'unserved'],
] as const
const SEARCHES = [
  { part: 'app' },
  { wildcard: '*.example.com' },
  { serialNumber: 'beef' },
  { part: 'a', wildcard: 'a', serialNumber: 'a' },
]
/** What a reader may see: some names, or all but the certificates of an issuer. */
const SCOPES = [
  {},
  { without: 'clients' },
  { names: { exact: ['a.example.com'], patterns: [] } },
  { without: 'clients', names: { exact: [], patterns: ['%.example.com'] } },
]

const RENEWAL_SCOPES = [
  { askedBy: 'psk:web' },
  { domain: 'app.example.com' },
  { issuer: 'ca' },
  { keyType: 'p256' },
  { signers: [CHAIN[0]!] },
  { madeBefore: NOW },
]

/** Has a store run each of its statements. */
export async function driveAll(opened: Opened): Promise<void> {
  const { store } = opened
  for (const drive of [driveCertificates, driveListings, driveOrders, driveAcme, driveRest])
    await drive(opened)
  const kept = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  await store.prune(NOW, kept)
  await store.check()
}

async function driveCertificates({ store }: Opened): Promise<void> {
  const first = newCertificate({ names: ['app.example.com', 'b.example.com'], checkAt: NOW })
  const work = { requestKey: first.requestKey, domain: 'app.example.com', names: 2, askedBy: 'web' }
  const lease = (await store.takeLease(work))!
  await store.saveOrder(newOrder({ requestKey: first.requestKey }), lease)
  const { id } = await store.addCertificate(first, newAudit(), { lease })
  const ofAccount = { names: ['c.example.com'], way: 'acme', account: 'a' } as const
  const other = await store.addCertificate(newCertificate(ofAccount), newAudit())
  const predecessor = { id: other.id, requestKey: other.requestKey, reason: 'named' } as const
  for (const names of [['d.example.com', 'e.example.com'], ['f.example.com']])
    await store.addCertificate(newCertificate({ names }), newAudit(), { predecessor })
  await store.findById(other.id)
  await store.hasRevokedOfClient('app.example.com', NOW)
  await store.listTransitions(other.id)
  await store.setDownloaded(id, NOW)
  await store.reinstate(other, { at: NOW, actor: 'psk:web', account: 'a' })
  const freed = (await store.takeLease(work))!
  await store.isBusyElsewhere('app.example.com')
  await store.countNames('web', NOW, freed)
  await store.countInUse('app.example.com', NOW, freed)
  await store.releaseLease(freed)
  await store.findCurrent(first.requestKey)
  await store.findByDomain('app.example.com')
  await store.findByName('b.example.com')
  for (const isOut of [false, true])
    for (const after of [undefined, { notAfter: NOW, id: 1 }])
      await store.listIssued('app.example.com', { now: NOW, isOut, after })
  await store.listIssuedTo('a', { now: NOW })
  await store.listRequested('psk:web', { now: NOW })
  await store.listHistory('app.example.com')
  await store.findBySerial('app.example.com', first.serialNumber)
  await store.findIssued('0'.repeat(64))
  await store.listBySerial('beef')
  await store.listHeads('psk:web', ['app.example.com'], { account: 'a', address: '10.0.0.1' })
  for (const scope of RENEWAL_SCOPES) await store.listInService(scope, { notAfter: NOW, id: 1 })
  await store.requestRenewals(new Map([[id, NOW]]), newAudit())
  await store.setRenewalInfoRead(new Map([[id, NOW]]))
  await store.list({ after: 0, limit: 100 })
  for (const isCovered of [false, true]) await store.listLate(NOW, 10, isCovered)
  await store.countCovered(NOW)
  await store.findCoverage(id)
  await store.listEnding(NOW, 10)
  await store.claimUnchecked(NOW + DAY, 10, NOW + 2 * DAY)
  await store.claimUnprobed(NOW + DAY, 10, NOW + 2 * DAY)
  await store.claimDue(NOW + 4 * DAY, 10)
  await store.setRenewAt(id, NOW)
  const window = { checkAt: NOW, windowStart: NOW, windowEnd: NOW, explanationUrl: null }
  await store.setRenewalWindow(id, { ...window, renewAt: NOW })
  await store.bringForward(NOW)
  await store.makeFutureDue(NOW)
  await store.hasFuture(NOW)
  await store.setFetchedAt(new Map([[id, NOW]]))
  await store.remove([other.id], newAudit())
  await store.revoke([id], NOW, 'keyCompromise', newAudit())
  await store.compromise([first.certificate], NOW)
  await store.listRevoked(CHAIN[0]!, NOW)
  await store.isCompromised('a')
}

async function driveListings({ store }: Opened): Promise<void> {
  for (const order of ORDERS)
    for (const isBackwards of [false, true]) {
      const page = { isBackwards, limit: 50 }
      const key = order === 'name' ? 'a' : 1
      const froms = [undefined, { key, id: 1 }, { key, id: 'a' }]
      for (const state of STATES) await listAll(store, { order, state, now: NOW }, page)
      for (const scope of SCOPES)
        for (const search of [undefined, ...SEARCHES])
          await listAll(store, { order, ...scope, now: NOW, ...(search && { search }) }, page)
      for (const from of froms)
        await listAll(store, { order, issuer: 'ca', now: NOW }, { ...page, from })
    }
  await store.tally(NOW, [NOW, NOW + DAY])
  await store.tally(NOW, [NOW, NOW + DAY], 'clients')
  await store.countFailedOrders()
}

async function driveOrders({ store }: Opened): Promise<void> {
  const order = newOrder({ requestKey: 'x', id: 'x' })
  await store.saveOrder(order)
  const ended = (await store.takeLease({ requestKey: 'y', domain: 'y', names: 1 }))!
  await store.saveOrder(order, undefined, ended)
  await store.fileOrder(order)
  await store.findOrder('x')
  await store.findOrderByRequestKey('x')
  await store.findOrders(['x'])
  await store.findOrderByUrl('x')
  await store.listPendingOrders()
  await store.listResumableOrders(NOW)
  await store.voidWaits({ requestKeys: ['x'] }, NOW)
  await store.abandonOrders('psk:web')
  await store.voidWaits({ configurations: ['c'] }, NOW)
  const account = {
    directory: 'd',
    sealedKey: Buffer.from('k'),
    nextKey: null,
    url: null,
    contact: null,
  }
  await store.addAccount(account)
  await store.saveAccount(account)
  await store.findAccount('d')
  await store.putChallenge('k', 'v', NOW)
  await store.findChallenge('k')
  await store.deleteChallenge('k')
}

async function driveAcme({ store: { acme }, sql }: Opened): Promise<void> {
  await acme.counterOf(['web', 'www'])
  await acme.addAccount(ACCOUNT, newAudit())
  await acme.changeKey('a', 'a', { thumbprint: 'b', jwk: '{}' }, newAudit())
  await acme.findAccount('a')
  await acme.findAccountByKey('b')
  await acme.listAccounts('web', 10)
  await acme.listAccounts(undefined, 10)
  await acme.touchAccounts(new Map([['a', { usedAt: NOW, client: null, remoteAddress: null }]]))
  await acme.addOrder(ORDER)
  await acme.findOrder('o')
  await acme.listOrders('a', '', 10)
  await acme.claimOrder('o', Buffer.from('csr'))
  await acme.endOrder('o', { error: {} })
  await acme.addOrder({ ...ORDER, id: 'p', status: 'pending' })
  await acme.addOrder({ ...ORDER, id: 'q', status: 'pending' })
  await acme.changeOrder('p', ({ proofs, error }) => ({ status: 'ready', proofs, error }))
  await acme.changeContact('a', [])
  await acme.endAccount('a', 'deactivated', newAudit())
  await acme.addAccount({ ...ACCOUNT, thumbprint: 'b' }, newAudit())
  await acme.endAccount('a', 'deactivated', newAudit())
  await acme.addAccount({ ...ACCOUNT, thumbprint: 'b', caller: 'another' }, newAudit())
  await acme.adoptAccounts({ caller: 'web', boundBy: 'digest' }, newAudit())
  await acme.adoptAccounts({ caller: 'web', boundBy: 'next', ids: ['a'] }, newAudit())
  await acme.listBindings()
  await acme.renewExternalAccount({ names: ['web'], digests: ['digest'], kept: [] }, newAudit())
  await acme.renameCaller('web', 'edge', (caller) => `psk:${caller}`)
  await acme.listIssuing('a')
  // As many as a caller may have.
  await sql(`INSERT INTO @served_accounts
      (id, caller, thumbprint, jwk, status, contact, created_at, used_at, kept_at, kept_ran)
    WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < 10000)
    SELECT 'n' || n, 'full', 'n' || n, '{}', 'revoked', '[]', n, n, n, n FROM rows`)
  await acme.addAccount({ ...ACCOUNT, id: 'last', caller: 'full', thumbprint: 'last' }, newAudit())
  await sql(`UPDATE @served_accounts SET status = 'valid'`)
  await acme.addAccount(
    { ...ACCOUNT, id: 'one more', caller: 'full', thumbprint: 'one more' },
    newAudit(),
  )
}

async function driveRest({ store }: Opened): Promise<void> {
  await store.saveProbe(newProbe({ reporter: 'psk:web' }))
  await store.listProbes(['app.example.com'])
  await store.listNotServed(NOW, 10)
  await store.countProbes()
  await store.pruneProbes(NOW, NOW)
  const signIn = { id: 's', keySha256: Buffer.from('k'), openedAt: NOW, usedAt: NOW }
  await store.addSignIn(signIn)
  await store.touchSignIn('s', NOW)
  await store.findSignIn('s')
  await store.deleteSignIn('s')
  await store.addRootHolders([{ caller: 'psk:web', address: '::1', roots: [], seenAt: NOW }])
  await store.listRootHolders(NOW)
  const event = { body: '{}', at: NOW, receivers: ['hook'] }
  await store.addEvent({ ...event, once: { key: 'k', until: NOW } })
  await store.addEvent({ ...event, once: { key: 'k', until: NOW, always: true } })
  await store.countEvents()
  for (const { id } of await store.claimDueEvents('hook', NOW, 10, NOW + DAY)) {
    await store.delayEvent(id, NOW)
    await store.hastenEvents('hook', NOW, NOW)
    await store.deleteEvent(id)
  }
  await store.pruneEvents(NOW, { receivers: ['hook'], olderThan: NOW })
  await store.changeUsage(['k'], (usage) => {
    usage.set('k', NOW)
    usage.reserve('o', ['k'], NOW)
  })
  await store.listUsage('psk:web')
  await store.pruneUsage(NOW)
  const role = 'root' as const
  const authority = { role, certificate: CHAIN[0]!, sealedKey: null, notAfter: NOW }
  const { id } = (await store.addAuthority(authority, null))!
  await store.listAuthorities()
  const roll = { fromRoot: id, begunAt: NOW }
  await store.beginRoll([authority, { ...authority, role: 'cross' }], roll, newAudit())
  await store.beginRoll([authority], roll, newAudit())
  for (const row of await store.listRolls())
    await store.changeRoll(row, { stage: 'used', usedAt: NOW }, newAudit())
  await store.findInForce([CHAIN[0]!], NOW)
  await store.dropAuthorityKey(id)
  await store.findCrl(id)
  const crl = {
    authorityId: id,
    number: 1n,
    crl: Buffer.from('c'),
    thisUpdate: NOW,
    nextUpdate: NOW,
  }
  await store.replaceCrl({ id, certificate: CHAIN[0]! }, NOW, () => ({ ...crl, entries: null }))
  const [check, next] = [Buffer.from('one'), Buffer.from('two')]
  const key = { id: 1, purpose: 'p', wrapped: Buffer.from('w'), seals: 0 }
  await store.createKeyring(check)
  await store.addDataKey(key, check)
  await store.countSeals(1, 1)
  await store.loadKeyring()
  await store.replaceKeyring({ check: next, dataKeys: [key] }, check)
  await store.addAudit([newAudit({ key: 'k' })])
  await store.listAudit({ limit: 10 })
  await store.listAuditOf('app.example.com', 10)
}

/** Statements that may read many rows, by a part of them, and why. */
export const KNOWN: Readonly<Record<string, string>> = {
  'SELECT id FROM ( SELECT id FROM (': 'a page of the inventory, or a search of it',
  'SELECT count(*) AS total FROM certificates WHERE is_current': 'a scrape counts all',
  'FROM certificates WHERE revoked_at IS NULL AND not_after >= $2 AND chain IN':
    'all that is below a root that is replaced',
  'GROUP BY caller, bound_by': 'the accounts of all callers, at a start and a reload',
  'FROM usage WHERE key LIKE': 'a caller was renamed',
  'UPDATE orders SET asked_by': 'the same',
  'FROM served_accounts ORDER BY used_at DESC, id LIMIT':
    'the accounts of all callers, sorted, for operators',
}
export const KNOWN_BY: Readonly<Record<'sqlite' | 'postgres', Readonly<Record<string, string>>>> = {
  // It is not known to stop at a limit, or at the first one, where an index is read from one end.
  sqlite: {
    'ORDER BY not_before, id LIMIT 250': 'few begin in the future',
    'ORDER BY probe_at, id LIMIT': 'stops at its limit',
    'LIMIT 250 FOR UPDATE SKIP LOCKED)':
      'a prune: passes over what was written while a clock was ahead',
    'DELETE FROM audit WHERE': 'the oldest 250',
    'DELETE FROM certificates WHERE id IN': 'a prune, like the others',
    'WHERE is_current AND id > $1 ORDER BY id LIMIT': 'passes over those that were replaced',
    'renew_at IS NOT NULL AND late_at < $1': 'few are late',
    'AND NOT (late_at < $1 AND': 'passes over those that are not renewed, or covered',
    'FROM audit) - 5000': 'the newest 5,000',
    'SELECT id FROM certificates WHERE is_current AND not_after >= $1':
      'all that is in service, once, as an operator has many renewed',
  },
  postgres: {
    "FROM orders WHERE status = 'failed'": 'few have failed',
    'WHERE id IN ( SELECT held.id FROM orders': 'the same',
    "FROM orders WHERE status = 'pending'": 'few are pending',
    'FROM replicas AS replica': 'there are few replicas',
    'renew_at IS NOT NULL AND late_at < $1':
      'few are late, which it does not know without the time',
    'AND NOT (late_at < $1 AND': 'the same',
    "SET status = 'revoked' WHERE status = 'valid'":
      'all accounts of a caller, which renews its key',
    'WHERE revoked_at IS NOT NULL AND (not_after': 'a revocation list names all that is revoked',
  },
}

/** Statements of PostgreSQL alone. */
export const OF_POSTGRES = [
  /pg_advisory_xact_lock/,
  /^leases\.ts: (?:DELETE FROM leases WHERE holder|UPDATE leases SET until)/,
  /^leases\.ts: \s*DELETE FROM leases WHERE token IN \(\s*SELECT token FROM leases WHERE until </,
]

/** The sources whose statements are driven. */
export const SOURCES = {
  both: [
    ...['acme-server', 'audit', 'events', 'sealing/keys', 'schema/coverage', 'sign-ins', 'probes'],
    'root-holders',
    ...['authorities', 'certificates', 'listings', 'renewals', 'withdrawals'].map(
      (name) => `certificate/${name}`,
    ),
    ...['leases', 'limits', 'orders'].map((name) => `orders/${name}`),
    '../../store/src/outbox',
  ].map((name) => `${name}.ts`),
  postgres: ['replicas/changes.ts', 'replicas/membership.ts'],
}
/** Tables that grow with certificates and their use. */
export const LARGE = [
  ...['certificates', 'certificate_names', 'compromised_keys', 'orders', 'served_accounts'],
  ...['served_orders', 'challenges', 'audit', 'usage', 'told'],
]
const VALUES: Readonly<Record<string, string>> = {
  'certificates.is_current': 'n % 2',
  'certificates.issuer': `'ca'`,
  'certificates.chain': `'chain' || (n % 3)`,
  'certificates.key_type': `'p256'`,
  'certificates.asked_by': `'caller' || (n % 200)`,
  'certificates.account': `'account' || (n % 500)`,
  'certificates.searched': `CASE WHEN n % 1000 <> 0 THEN 'names' || n END`,
  'certificates.renew_at': 'CASE WHEN n % 10 <> 0 THEN n END',
  'certificates.revoked_at': 'CASE WHEN n % 50 = 0 THEN n END',
  'orders.issuer': `'ca'`,
  'orders.status': `CASE WHEN n % 200 = 0 THEN 'failed' WHEN n % 200 = 1 THEN 'pending' ELSE 'done' END`,
  'orders.names': `'["a"]'`,
  'served_accounts.caller': `'caller' || (n % 200)`,
  'served_accounts.status': `'valid'`,
  'served_orders.account': `'account' || (n % 500)`,
  'served_orders.status': `CASE WHEN n % 200 = 0 THEN 'pending' ELSE 'valid' END`,
  'audit.names': `'["a"]'`,
}
export const sqlOf = (table: string, column: string) => VALUES[`${table}.${column}`]
