import {
  type Engine,
  groupCommit,
  indexable,
  type Queries,
  type Transaction,
} from '@gatehouse/store'
import type { AuditLog } from './audit.ts'
import type {
  AcmeServerStore,
  AuditEntry,
  Binding,
  NewCertificate,
  ServedAccount,
  ServedOrder,
} from './port/store.ts'
import { ACCOUNT_KEPT, ORDER_KEPT } from './port/times.ts'
import { isCovered } from './schema/coverage.ts'
import { type Age, DAY, deleteOld, TEXTS } from './schema/sql.ts'
import { SERVED_ACCOUNTS, SERVED_ORDERS } from './schema/tables.ts'

/** Orders that one client may have, and those of them that are open; accounts that one caller may have. */
const MAX_ORDERS = 20_000
const MAX_OPEN = 1_000
const MAX_ACCOUNTS = 10_000

const BY_KEY = 'WHERE thumbprint = $1'
const OPEN = `status IN ('pending', 'ready')`
const END_OPEN = `
  UPDATE served_orders SET status = 'invalid' WHERE account = $1 AND wanted = $2 AND ${OPEN} AND expires_at <= $3`
const SAME = `WHERE account = $1 AND wanted = $2 AND ${OPEN}`
const COUNT_OPEN = `SELECT count(*) AS count FROM served_orders WHERE account = $1 AND ${OPEN}`
const LAST_ONE = `
  SELECT id FROM served_orders WHERE account = $1 ORDER BY id LIMIT 1 OFFSET ${MAX_ORDERS - 1}`
/** SQL: as the index has it, which also finds those of no caller. */
const OF_CALLER = `WHERE coalesce(caller, '') = coalesce($1, '')`
const COUNT_ACCOUNTS = `SELECT count(*) AS count FROM served_accounts ${OF_CALLER}`
const oldest = (condition: string) => `
  DELETE FROM served_accounts WHERE id = (
    SELECT id FROM served_accounts ${OF_CALLER} AND ${condition} ORDER BY used_at LIMIT 1)`
const DELETE_ENDED = oldest(`status <> 'valid'`)
/** SQL: an account needs one of its certificates, as others do not have all of its names for longer. */
const IS_HOLDER = `EXISTS (
      SELECT 1 FROM certificates
      WHERE is_current AND account IS NOT NULL AND revoked_at IS NULL AND account = served_accounts.id AND not_after > $2
        AND NOT ${isCovered('any')})`
/** SQL: an account without such a certificate that was unused for a day, or is of the same address. */
const DELETE_IDLE = oldest(`(remote_address = $3 OR used_at + ${DAY} < $2) AND NOT ${IS_HOLDER}`)
const CLAIM = `
  UPDATE served_orders SET status = 'processing', csr = $2 WHERE id = $1 AND status = 'ready'`
/** SQL: the order, unless it has ended, has this status, certificate and problem. */
export const END_SERVED_ORDER = `
  UPDATE served_orders SET status = $2, fingerprint = $3, error = $4
  WHERE id = $1 AND status NOT IN ('valid', 'invalid')`
const CHANGE = 'UPDATE served_orders SET status = $2, proofs = $3, error = $4 WHERE id = $1'
const MOST_OF = `SELECT max(counter) AS counter FROM external_accounts WHERE caller IN (${TEXTS})`
/** SQL: as all replicas count alike, of renewals at the same time too. */
const RENEW = `
  INSERT INTO external_accounts (caller, counter) VALUES ($1, $2)
  ON CONFLICT (caller) DO UPDATE SET counter = greatest(external_accounts.counter + 1, excluded.counter)
  RETURNING counter`
const COPY_COUNTER = `
  INSERT INTO external_accounts (caller, counter)
  SELECT $2::text, counter FROM external_accounts WHERE caller = $1
  ON CONFLICT (caller) DO UPDATE SET counter = excluded.counter
  WHERE external_accounts.counter < excluded.counter`
const inTexts = (parameter: string) => `IN (${TEXTS.replace('$1', parameter)})`
const END_OTHERS = `
  UPDATE served_accounts SET status = 'revoked'
  WHERE status = 'valid' AND id NOT ${inTexts('$2')}
    AND id IN (
      SELECT id FROM served_accounts ${OF_CALLER}
      UNION ALL SELECT id FROM served_accounts WHERE bound_by ${inTexts('$3')})`
const ADOPT = `
  UPDATE served_accounts SET bound_by = $2
  ${OF_CALLER} AND status = 'valid' AND bound_by <> $2 AND bound_by NOT ${inTexts('$3')}`
const ADOPT_SOME = `${ADOPT} AND id ${inTexts('$4')} RETURNING id`
const BINDINGS = `
  SELECT caller, bound_by AS "boundBy", count(*) AS accounts
  FROM served_accounts WHERE status = 'valid' AND bound_by IS NOT NULL GROUP BY caller, bound_by`
const MOVE_ACCOUNTS = `UPDATE served_accounts SET caller = $2 ${OF_CALLER}`
const MOVE_CERTIFICATES = 'UPDATE certificates SET asked_by = $2 WHERE asked_by = $1'
const MOVE_ORDERS = 'UPDATE orders SET asked_by = $2 WHERE asked_by = $1'
const ISSUING = `SELECT names FROM served_orders WHERE account = $1 AND status = 'processing'`
const TOUCH = `
  UPDATE served_accounts SET used_at = $2, client = $4, remote_address = $5, ${keptUntil('$2', '$3')}
  WHERE id = $1`
const KEEP = `UPDATE served_accounts SET ${keptUntil('$2', '$3')} WHERE id = $1`
const DELETE_OLD_ACCOUNTS = deleteOld('served_accounts', 'id', 'kept_at', 'kept_ran')
const DELETE_OLD_ORDERS = deleteOld('served_orders', 'id', 'at', 'ran')

type Claim = Parameters<AcmeServerStore['claimOrder']>
type End = Parameters<AcmeServerStore['endOrder']>

export function acmeServerOn(db: Engine, audit: AuditLog): AcmeServerStore {
  const addOrder = groupCommit(db, (tx, orders: readonly ServedOrder[]) =>
    each(orders, (order) => add(tx, order)),
  )
  // A certificate is committed after the claim, and durably: what it needs is not lost before it.
  const claim = groupCommit(
    db,
    (tx, claims: readonly Claim[]) =>
      each(claims, async (values) => (await tx.run(CLAIM, ...values)) === 1),
    { durable: false },
  )
  // The client is told of it, and no certificate is committed after it.
  const end = groupCommit(db, (tx, ended: readonly End[]) =>
    each(ended, async ([id, to]) => (await tx.run(END_SERVED_ORDER, id, ...outcomeOf(to))) === 1),
  )

  /** Part of a write: the row of accounts that have ended, if there are any. */
  async function addEnd(tx: Transaction, entry: AuditEntry): Promise<void> {
    if (entry.count) await audit.add(tx, { ...entry, action: 'acme-account-end' })
  }

  /** The open order of the account for the same, or this one; undefined if too many are open. */
  async function add(tx: Transaction, order: ServedOrder): Promise<ServedOrder | undefined> {
    const { account, wanted, at } = order
    await tx.run(END_OPEN, account, wanted, at)
    const row = { ...order, ran: db.runTime() }
    const { count } = (await tx.get<{ count: number }>(COUNT_OPEN, account)) ?? { count: 0 }
    const mayAdd = count < MAX_OPEN && !(await tx.get(LAST_ONE, account))
    if (mayAdd && (await SERVED_ORDERS.add(tx, row, ' ON CONFLICT DO NOTHING'))) return order
    const same = await SERVED_ORDERS.find(tx, SAME, account, wanted)
    // Another replica may have finalized it just now.
    return same ? (same as ServedOrder) : mayAdd ? add(tx, order) : undefined
  }

  return {
    addOrder,
    claimOrder: (...values) => claim(values),
    endOrder: (...values) => end(values),
    counterOf: (names) => counterOf(db, names),
    renewExternalAccount: ({ names, digests, kept }, entry) =>
      db.transaction(async (tx) => {
        const [caller = ''] = names
        const next = (await counterOf(tx, names)) + 1
        const renewed = await tx.get<{ counter: number }>(RENEW, indexable(caller), next)
        const [keep, values] = [kept, digests].map((texts) => JSON.stringify(texts))
        const count = await tx.run(END_OTHERS, caller, keep, values)
        await audit.add(tx, entry)
        await addEnd(tx, { ...entry, count })
        return renewed?.counter ?? next
      }),
    addAccount: (account, entry, isInForce = ({ status }) => status === 'valid') =>
      db.transaction(async (tx) => {
        const { thumbprint, caller } = account
        const holder = await SERVED_ACCOUNTS.find(tx, `${BY_KEY} FOR UPDATE`, thumbprint)
        if (holder && isInForce(holder as ServedAccount)) return holder as ServedAccount
        // An account that has ended keeps its id, and with it its orders and certificates, which are its caller's.
        const previous = holder?.caller === caller ? holder : undefined
        if (!previous && !(await hasRoom(tx, account))) return undefined
        // Not by its key, which another replica may have registered meanwhile.
        if (holder && !previous)
          await tx.run('DELETE FROM served_accounts WHERE id = $1', holder.id)
        const id = previous?.id ?? account.id
        const keptAt = Math.max(previous?.keptAt ?? 0, account.usedAt)
        const keptRan = Math.max(previous?.keptRan ?? 0, db.runTime())
        const row = { ...account, id, keptAt, keptRan }
        const conflict = previous
          ? SERVED_ACCOUNTS.replacing(['id'], row)
          : ' ON CONFLICT DO NOTHING'
        const isAdded = (await SERVED_ACCOUNTS.add(tx, row, conflict)) === 1
        if (!isAdded) return findAccount(tx, BY_KEY, thumbprint)
        await audit.add(tx, { ...entry, account: id })
        return { ...account, id }
      }),
    findAccount: (id) => findAccount(db, 'WHERE id = $1', id),
    findAccountByKey: (thumbprint) => findAccount(db, BY_KEY, thumbprint),
    findAccounts: async (ids) =>
      (await SERVED_ACCOUNTS.list(
        db,
        `WHERE id IN (${TEXTS})`,
        JSON.stringify(ids),
      )) as readonly ServedAccount[],
    async listAccounts(caller, limit) {
      const [where, ...params] = caller === undefined ? [''] : [OF_CALLER, caller]
      const clause = `${where} ORDER BY used_at DESC, id LIMIT ${limit}`
      return (await SERVED_ACCOUNTS.list(db.reports, clause, ...params)) as readonly ServedAccount[]
    },
    endAccount: (id, status, entry) =>
      db.transaction(async (tx) => {
        const sql = `UPDATE served_accounts SET status = $2 WHERE id = $1 AND status = 'valid'`
        await addEnd(tx, { ...entry, account: id, count: await tx.run(sql, id, status) })
      }),
    adoptAccounts: ({ caller, boundBy, ids, kept = [] }, entry) =>
      db.transaction(async (tx) => {
        const values = JSON.stringify(kept)
        if (!ids) {
          const count = await tx.run(ADOPT, caller, boundBy, values)
          if (count > 0) await audit.add(tx, { ...entry, count })
          return count
        }
        const some = JSON.stringify(ids)
        const adopted = await tx.all<{ id: string }>(ADOPT_SOME, caller, boundBy, values, some)
        for (const { id } of adopted) await audit.add(tx, { ...entry, account: id })
        return adopted.length
      }),
    listBindings: () => db.reports.all<Binding>(BINDINGS),
    renameCaller: (former, present, actorOf) =>
      db.transaction(async (tx) => {
        await tx.run(MOVE_ACCOUNTS, former, present)
        await tx.run(COPY_COUNTER, indexable(former), indexable(present))
        const [from, to] = [actorOf(former), actorOf(present)]
        await tx.run(MOVE_CERTIFICATES, indexable(from), indexable(to))
        await tx.run(MOVE_ORDERS, from, to)
      }),
    async listIssuing(account) {
      const rows = await db.all<{ names: string }>(ISSUING, account)
      return rows.map(({ names }) => JSON.parse(names))
    },
    async changeContact(id, contact) {
      const sql = 'UPDATE served_accounts SET contact = $2 WHERE id = $1'
      await db.transaction((tx) => tx.run(sql, id, JSON.stringify(contact)))
    },
    async changeKey(id, from, to, entry) {
      const owner = await findAccount(db, BY_KEY, to.thumbprint)
      if (owner) return owner.id
      const sql = `UPDATE served_accounts SET thumbprint = $3, jwk = $4
        WHERE id = $1 AND thumbprint = $2 AND status = 'valid'`
      try {
        return await db.transaction(async (tx) => {
          if ((await tx.run(sql, id, from, to.thumbprint, to.jwk)) !== 1) return id
          await audit.add(tx, { ...entry, account: id })
          return undefined
        })
      } catch (error) {
        // Another request may have given the key to an account meanwhile.
        const faster = await findAccount(db, BY_KEY, to.thumbprint)
        if (faster) return faster.id
        throw error
      }
    },
    async touchAccounts(used) {
      const ran = db.runTime()
      // Sorted, so that two transactions never wait for each other.
      const sorted = [...used].sort(([a], [b]) => (a < b ? -1 : 1))
      await db.transaction(
        (tx) =>
          each(sorted, ([id, { usedAt, client, remoteAddress }]) =>
            tx.run(TOUCH, id, usedAt, ran, client, remoteAddress),
          ),
        { durable: false },
      )
    },
    findOrder: (id) =>
      SERVED_ORDERS.find(db, 'WHERE id = $1', id) as Promise<ServedOrder | undefined>,
    async listOrders(account, after, limit) {
      const sql = `SELECT id FROM served_orders WHERE account = $1 AND id > $2 ORDER BY id LIMIT $3`
      const rows = await db.all<{ id: string }>(sql, account, after, limit)
      return rows.map(({ id }) => id)
    },
    changeOrder: (id, change) =>
      db.transaction(async (tx) => {
        const order = await SERVED_ORDERS.find(tx, 'WHERE id = $1 FOR UPDATE', id)
        const changed = order && change(order as ServedOrder)
        if (!changed) return
        const { status, proofs, error } = changed
        const values = [proofs, error].map((value) =>
          value === null ? null : JSON.stringify(value),
        )
        await tx.run(CHANGE, id, status, ...values)
      }),
  }
}

/** Deletes orders and accounts that nobody needs any more. */
export async function pruneAcme(db: Engine, ageOf: (ms: number) => Age): Promise<number> {
  const orders = await db.run(DELETE_OLD_ORDERS, ...ageOf(ORDER_KEPT))
  return orders + (await db.run(DELETE_OLD_ACCOUNTS, ...ageOf(ACCOUNT_KEPT)))
}

/** Part of a write: accounts live as long as what they have got. */
export async function keepAccounts(
  tx: Transaction,
  certificates: readonly NewCertificate[],
  ran: number,
): Promise<void> {
  // Sorted, so that two transactions never wait for each other.
  const lifetimes = certificates
    .flatMap(({ account, ...times }) => (account ? { account, ...times } : []))
    .sort((a, b) => (a.account < b.account ? -1 : 1))
  await each(lifetimes, ({ account, notBefore, notAfter }) =>
    tx.run(KEEP, account, notAfter, ran + notAfter - notBefore),
  )
}

/** SQL: an account is kept until then at least, by the clock and by the run time. */
function keptUntil(time: string, ran: string): string {
  return `kept_at = greatest(kept_at, ${time}), kept_ran = greatest(kept_ran, ${ran})`
}

/** Whether a caller may have one more account. One of it that nobody needs makes room. */
async function hasRoom(tx: Transaction, account: ServedAccount): Promise<boolean> {
  const { caller, createdAt, remoteAddress } = account
  const { count } = (await tx.get<{ count: number }>(COUNT_ACCOUNTS, caller)) ?? { count: 0 }
  if (count < MAX_ACCOUNTS || (await tx.run(DELETE_ENDED, caller)) === 1) return true
  return (await tx.run(DELETE_IDLE, caller, createdAt, remoteAddress ?? '')) === 1
}

async function counterOf(on: Queries, names: readonly string[]): Promise<number> {
  const row = await on.get<{ counter: number }>(MOST_OF, JSON.stringify(names.map(indexable)))
  return row?.counter ?? 1
}

const findAccount = (on: Queries, where: string, value: string) =>
  SERVED_ACCOUNTS.find(on, where, value) as Promise<ServedAccount | undefined>

function outcomeOf(outcome: End[1]) {
  if ('fingerprint' in outcome) return ['valid', outcome.fingerprint, null]
  return ['invalid', null, JSON.stringify(outcome.error)]
}

/** Writes all at once: statements that need not wait for each other share a round trip. */
function each<T, R>(items: readonly T[], write: (item: T) => Promise<R>): Promise<R[]> {
  return Promise.all(items.map(write))
}
