import { DatabaseSync } from 'node:sqlite'
import {
  migrateSqlite,
  type Parameter,
  Sqlite,
  type Transaction,
  type WriteOptions,
} from '@gatehouse/store'
import t from 'tap'
import { storeOn } from '../../src/engines/whole.ts'
import { Leases } from '../../src/orders/leases.ts'
import type { Store } from '../../src/port/store.ts'
import { MIGRATIONS, OF_PROCESSES } from '../../src/schema/tables.ts'
import { fill } from '../helpers/filled-store.ts'
import { NOW, newAudit, newOrder } from '../helpers/store.ts'

/** Notes which method writes, and whether that waits for the disk. Of each engine there is a test that it then does. */
class Noting extends Sqlite {
  readonly written = { durable: new Set<string>(), not: new Set<string>() }
  method = ''

  override run(sql: string, ...params: readonly Parameter[]) {
    this.written.durable.add(this.method)
    return super.run(sql, ...params)
  }

  override transaction<T>(job: (tx: Transaction) => Promise<T>, options: WriteOptions = {}) {
    this.written[options.durable === false ? 'not' : 'durable'].add(this.method)
    return super.transaction(job, options)
  }
}

/** An empty store in memory, whose methods are called one after the other. */
function notingStore() {
  const sqlite = new DatabaseSync(':memory:')
  migrateSqlite(sqlite, MIGRATIONS)
  for (const table of OF_PROCESSES) sqlite.exec(table.createdBy('sqlite'))
  const db = new Noting(sqlite)
  const store = new Proxy(storeOn(db, { leases: new Leases(db) }), {
    get(target, name) {
      db.method = String(name)
      return Reflect.get(target, name)
    },
  })
  return { store: store as unknown as Store, written: db.written }
}

/** All that writes and is not part of filling a store. */
async function change(store: Store): Promise<void> {
  const [current] = await store.list({ after: 0, limit: 1 })
  const id = current?.id ?? 0
  const lease = await store.takeLease({ requestKey: 'l', domain: 'l.example', names: 1 })
  if (lease) await store.releaseLease(lease)
  await store.claimDue(NOW, 9)
  await store.claimUnchecked(NOW, 9, NOW)
  await store.claimUnprobed(NOW, 9, NOW)
  await store.pruneProbes(NOW + 8 * 86_400_000, NOW)
  await store.setRenewAt(id, NOW)
  await store.reinstate(current!, { at: NOW, actor: 'psk:one', account: 'a-1' })
  await store.voidWaits({ configurations: [] }, NOW)
  await store.bringForward(NOW)
  await store.makeFutureDue(NOW)
  await store.addAudit([newAudit()])
  await store.fileOrder(newOrder({ requestKey: 'filed', id: 'filed' }))
  const account = { directory: 'd', sealedKey: new Uint8Array(9), nextKey: null, url: null }
  await store.addAccount({ ...account, contact: null })
  await store.deleteChallenge('http-01 token')
  await store.dropAuthorityKey(1)
  const { check, dataKeys } = (await store.loadKeyring())!
  await store.replaceKeyring({ check: new Uint8Array(32), dataKeys }, check)
  await store.pruneEvents(NOW, { receivers: [], olderThan: NOW })
  await store.touchSignIn('session', NOW)
  await store.deleteSignIn('session')
  await store.prune(NOW, { audit: 0, certificates: 0, orders: 0, challenges: 0 })
}

t.test('a crash of the machine takes nothing back but what is soon done again', async (t) => {
  const { store, written } = notingStore()
  await fill(store)
  await change(store)
  t.strictSame([...written.not].sort(), [
    // Of an order of a client, what is committed before its certificate.
    ...['acme', 'addRootHolders', 'claimDue', 'claimUnchecked', 'claimUnprobed', 'releaseLease'],
    // The next look sees it again.
    'saveProbe',
    // A client that asks again says so again. One that has its certificate names it when it renews.
    ...['setDownloaded', 'setFetchedAt', 'setRenewalInfoRead', 'takeLease'],
  ])
  t.strictSame([...written.durable].sort(), [
    ...[
      'acme',
      'addAccount',
      'addAudit',
      'addAuthority',
      'addCertificate',
      'addDataKey',
      'addEvent',
    ],
    ...[
      'addSignIn',
      'beginRoll',
      'bringForward',
      'changeRoll',
      'changeUsage',
      'claimDueEvents',
      'compromise',
      'countSeals',
      'createKeyring',
    ],
    ...['delayEvent', 'deleteChallenge', 'deleteEvent', 'deleteSignIn', 'dropAuthorityKey'],
    ...[
      'fileOrder',
      'hastenEvents',
      'makeFutureDue',
      'prune',
      'pruneEvents',
      'pruneProbes',
      'pruneUsage',
      'putChallenge',
    ],
    ...['reinstate', 'remove', 'replaceCrl', 'replaceKeyring', 'requestRenewals', 'revoke'],
    ...['saveAccount', 'saveOrder', 'setRenewAt', 'setRenewalWindow', 'touchSignIn', 'voidWaits'],
  ])
})

t.test('what callers used is soon forgotten anyway, and what a CA counts is not', async (t) => {
  for (const [keys, kept] of [
    [['caller a'], 'not'],
    [['caller a', 'caller b'], 'not'],
    [['orders ca'], 'durable'],
    [['caller a', 'orders ca'], 'durable'],
  ] as const) {
    const { store, written } = notingStore()
    await store.changeUsage(keys, (usage) => usage.set(keys[0], NOW))
    t.ok(written[kept].has('changeUsage'), keys.join())
  }
})
