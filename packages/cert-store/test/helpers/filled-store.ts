import { randomBytes } from 'node:crypto'
import { createRoot } from '@gatehouse/pki'
import { indexable } from '@gatehouse/store'
import type { NewCertificate, Store } from '../../src/port/store.ts'
import { PURPOSES, type Purpose } from '../../src/sealing/keyring.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder, newProbe } from './store.ts'

const HOUR = 3_600_000
/** The names of one certificate, too long for an index. */
const LONG = `${'a-department.'.repeat(18)}example.com`
const MANY = Array.from({ length: 12 }, (_, i) => `host-${i}.${LONG}`)

/** Fills an empty store with all that there can be, and what is hard to convert. */
export async function fill(store: Store): Promise<void> {
  await addAuthorities(store)
  await addRoll(store)
  await addServed(store)
  await addCertificates(store)
  await addOrders(store)
  await addKeys(store)
  const long = 'a caller '.repeat(150)
  await store.changeUsage(['limit of a', long], (usage) => {
    usage.set('limit of a', NOW + HOUR)
    usage.set(long, NOW - HOUR)
  })
  await store.pruneUsage(NOW)
  for (let n = 0; n < 4; n++) {
    const once = n > 1 ? { key: n > 2 ? long : 'once', until: NOW + HOUR } : undefined
    await store.addEvent({
      body: JSON.stringify({ n }),
      at: NOW,
      receivers: [n > 2 ? 'phone' : 'webhook'],
      ...(once && { once }),
    })
  }
  const [first] = await store.claimDueEvents('webhook', NOW, 1, NOW + HOUR)
  await store.delayEvent(first?.id ?? 0, NOW + HOUR)
  await store.hastenEvents('phone', NOW, NOW + HOUR)
  // The last one is gone: its id is not given again.
  await store.deleteEvent(4)
  await store.saveProbe(newProbe())
  const unseen = { sha256: null, issuer: null, notBefore: null, notAfter: null }
  const report = { reporter: 'jwt:someone '.repeat(150), state: 'unreachable' } as const
  await store.saveProbe(newProbe({ ...unseen, ...report, failures: 3 }))
  const roots = ['0123456789abcdef', 'fedcba9876543210']
  await store.addRootHolders([
    { caller: long, address: '::1', roots, seenAt: NOW },
    { caller: '', address: '10.0.0.1', roots: [], seenAt: NOW },
  ])
  await store.addSignIn({ id: 'session', keySha256: randomBytes(32), openedAt: NOW, usedAt: NOW })
}

async function addAuthorities(store: Store): Promise<void> {
  let previous: number | null = null
  for (const role of ['root', 'intermediate', 'intermediate'] as const) {
    if (role === 'root') previous = null
    const certificate = role === 'root' ? randomBytes(400) : (CHAIN[0] as Buffer)
    const sealedKey = role === 'root' ? null : randomBytes(150)
    const added = await store.addAuthority(
      { role, certificate, sealedKey, notAfter: NOW },
      previous,
    )
    if (!added) throw new Error(`no ${role}`)
    previous = role === 'root' ? null : added.id
    await store.replaceCrl(added, NOW, () => {
      const number = 2n ** 150n + BigInt(added.id)
      const times = { thisUpdate: added.id === 1 ? null : NOW, nextUpdate: NOW }
      return {
        authorityId: added.id,
        number,
        crl: randomBytes(99),
        entries: times.thisUpdate === null ? null : 'a digest',
        ...times,
      }
    })
  }
}

async function addRoll(store: Store): Promise<void> {
  const fromRoot = (await store.listAuthorities()).find(({ role }) => role === 'root')?.id ?? 0
  const certificate = randomBytes(400)
  const times = { thisUpdate: NOW, nextUpdate: NOW + HOUR }
  const crl = { number: 1n, crl: randomBytes(99), entries: null, ...times }
  const next = {
    role: 'root',
    certificate,
    sealedKey: randomBytes(150),
    notAfter: NOW,
    crl,
  } as const
  const cross = { role: 'cross', certificate, sealedKey: null, notAfter: NOW } as const
  await store.beginRoll([next, cross], { fromRoot, begunAt: NOW }, newAudit({ action: 'ca-roll' }))
  for (const roll of await store.listRolls())
    await store.changeRoll(roll, { stage: 'used', usedAt: NOW }, newAudit({ action: 'ca-roll' }))
}

async function addCertificates(store: Store): Promise<void> {
  const add = (changes: Partial<NewCertificate>) =>
    store.addCertificate(newCertificate(changes), newAudit())
  await add({ names: ['replaced.example'], askedBy: 'psk:one' })
  const origin = {
    way: 'acme',
    client: 'certbot/5.8.0',
    account: 'a-1',
    servedOrder: 'o-1',
    address: '2001:db8::1',
  } as const
  const acme = await add({ names: ['acme.example'], lifetime: HOUR, ...origin })
  await store.setDownloaded(acme.id, NOW)
  const by = newAudit({ action: 'request-renewal' })
  await store.requestRenewals(new Map([[acme.id, NOW + HOUR]]), by)
  await store.setRenewalInfoRead(new Map([[acme.id, NOW]]))
  const predecessor = { id: acme.id, requestKey: acme.requestKey, reason: 'named' } as const
  const next = newCertificate({ names: ['acme.example'], requestKey: 'acme', ...origin })
  await store.addCertificate({ ...next, servedOrder: null }, newAudit(), { predecessor })
  const replaced = await add({ names: ['replaced.example'] })
  const several = await add({
    names: ['a.example', '*.a.example', 'b.example'],
    askedBy: 'psk:two',
  })
  await add({
    names: ['a.example', '*.a.example', 'b.example'],
    chain: [...CHAIN, randomBytes(300)],
  })
  await add({ names: MANY, chain: [], askedBy: 'someone '.repeat(200), csr: randomBytes(700) })
  const { certificate } = await createRoot({ commonName: 'Test', now: NOW })
  const compromised = await add({ names: ['c.example', 'd.example'], renewAt: null, certificate })
  const window = { checkAt: NOW, windowStart: NOW + HOUR, windowEnd: NOW + 2 * HOUR }
  const explanationUrl = 'https://ca.example/why?ü'
  await store.setRenewalWindow(several.id + 1, { ...window, explanationUrl, renewAt: NOW + HOUR })
  await store.setFetchedAt(new Map([[replaced.id, NOW + HOUR]]))
  await store.compromise([certificate], NOW)
  await store.revoke([compromised.id], NOW, 'keyCompromise', newAudit({ action: 'revoke' }))
  const gone = await add({ names: ['gone.example', 'e.example'], sealedKey: null })
  await store.remove([gone.id], newAudit({ action: 'delete', detail: 'said "\\no", {a,b} \n' }))
  const rest = { serialNumber: 'ff', remoteAddress: '::1', requestId: 'r', count: 7 }
  await store.addAudit([newAudit({ names: [], key: 'hour', ...rest })])
}

async function addOrders(store: Store): Promise<void> {
  const state = { orderUrl: 'https://ca.example/order/1', text: '"\\u0000' }
  const origin = { way: 'acme', account: 'a-1', servedOrder: 'o-2' } as const
  await store.saveOrder(newOrder({ askedBy: 'psk:one', origin, lifetime: HOUR }))
  await store.saveOrder({
    ...newOrder({
      id: 'order-2',
      requestKey: indexable(`ca|${MANY}`),
      names: MANY,
      csr: randomBytes(9),
    }),
    ...{ status: 'failed', failures: 3, nextTryAt: NOW + HOUR, configuration: 'a digest' },
    lastError: { code: 'ACME_CAA', detail: 'über "all"', at: NOW },
    checkpoint: { state, sealedKey: randomBytes(90) },
  })
  await store.saveOrder(newOrder({ id: 'order-3', requestKey: 'x', status: 'done' }))
  const account = { directory: 'https://ca.example/d', url: null, contact: 'mailto:a@b.example' }
  await store.saveAccount({ ...account, sealedKey: randomBytes(90), nextKey: randomBytes(91) })
  const known = { directory: 'https://other.example/d', url: 'https://other.example/a/1' }
  await store.saveAccount({ ...account, ...known, sealedKey: randomBytes(90), nextKey: null })
  await store.putChallenge('http-01 token', 'a response', NOW)
}

async function addServed({ acme }: Store): Promise<void> {
  await acme.renewExternalAccount({ names: ['one'], digests: [], kept: [] }, newAudit())
  const used = { client: 'certbot/5.8.0', remoteAddress: '::1', createdAt: NOW, usedAt: NOW }
  const account = {
    caller: 'one',
    boundBy: 'a',
    jwk: '{}',
    status: 'valid',
    contact: [],
    ...used,
  } as const
  await acme.addAccount({ ...account, id: 'a-1', thumbprint: 'x' }, newAudit())
  await acme.addAccount(
    { ...account, id: 'a-2', thumbprint: 'y', caller: null, boundBy: null, client: null },
    newAudit(),
  )
  const order = {
    id: 'o-1',
    account: 'a-1',
    wanted: 'digest',
    names: MANY,
    profile: 'server',
    profileName: 'short',
    replaces: 'aa.bb',
    notAfter: null,
    status: 'ready',
    proofs: [{ token: 't', status: 'valid' }],
    csr: null,
    fingerprint: null,
    error: null,
    at: NOW,
    expiresAt: NOW + HOUR,
  } as const
  await acme.addOrder(order)
  await acme.claimOrder('o-1', randomBytes(200))
  await acme.addOrder({
    ...order,
    id: 'o-2',
    profile: 'client',
    replaces: null,
    notAfter: NOW + HOUR,
    proofs: null,
  })
  await acme.endOrder('o-2', { error: { type: 'über', detail: '"\\u0000' } })
}

async function addKeys(store: Store): Promise<void> {
  const check = randomBytes(32)
  await store.createKeyring(check)
  const key = (purpose: Purpose, i: number) => ({
    id: i + 1,
    purpose,
    wrapped: randomBytes(60),
    seals: i,
  })
  for (const record of PURPOSES.map(key)) await store.addDataKey(record, check)
  await store.countSeals(1, 2 ** 33)
}
