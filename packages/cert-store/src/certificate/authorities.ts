import type { Engine, Transaction } from '@gatehouse/store'
import type {
  AuditEntry,
  Authorities,
  AuthorityRecord,
  InForce,
  RollRecord,
} from '../port/store.ts'
import { TEXTS } from '../schema/sql.ts'
import { AUTHORITIES, CRLS, ROLLS } from '../schema/tables.ts'
import { type CertificateParts, issuerDigest } from './certificates.ts'
import { revokedOf } from './withdrawals.ts'

const NEWEST = 'SELECT max(id) AS id FROM authorities WHERE role = $1'
const LOCK = 'SELECT 1 FROM authorities WHERE id = $1 FOR UPDATE'
const UNLESS_FOLLOWED = ' ON CONFLICT (role, previous) DO NOTHING RETURNING id'
const CRL = 'WHERE authority_id = $1'
const UNDER_WAY = `WHERE from_root = $1 AND stage <> 'finished'`
const CHANGE_ROLL = `
  UPDATE rolls SET stage = $1, used_at = $2 WHERE to_root = $3 AND stage = $4`
const IN_FORCE = `
  FROM certificates
  WHERE revoked_at IS NULL AND not_after >= $2 AND chain IN (SELECT id FROM chains WHERE issuer IN (${TEXTS}))`
const COUNT_IN_FORCE = `SELECT count(*) AS total, max(not_after) AS until ${IN_FORCE}`
const LAST_IN_FORCE = `SELECT domain ${IN_FORCE} GROUP BY domain ORDER BY max(not_after) DESC, domain LIMIT 10`

async function newestOf(tx: Transaction, role: AuthorityRecord['role']): Promise<number | null> {
  return (await tx.get<{ id: number | null }>(NEWEST, role))?.id ?? null
}

/** Adds an authority after another one of its role; gives no id if another replica adds one there meanwhile. */
async function addAfter(
  tx: Transaction,
  authority: Omit<AuthorityRecord, 'id'>,
  previous: number | null,
): Promise<number | undefined> {
  const row = { ...authority, previous: previous ?? 0 }
  const [id] = await AUTHORITIES.addAll(tx, [row], UNLESS_FOLLOWED)
  return id
}

async function addNewest(tx: Transaction, authority: Omit<AuthorityRecord, 'id'>): Promise<number> {
  for (;;) {
    const id = await addAfter(tx, authority, await newestOf(tx, authority.role))
    if (id !== undefined) return id
  }
}

export function authoritiesOn(db: Engine, { audit, changes }: CertificateParts): Authorities {
  async function change(work: (tx: Transaction) => Promise<boolean>, entry: AuditEntry) {
    const { isChanged, urgent } = await db.transaction(async (tx) => {
      if (!(await work(tx))) return { isChanged: false }
      await audit.add(tx, entry)
      return { isChanged: true, urgent: await changes?.noteUrgent(tx, []) }
    })
    if (urgent !== undefined) changes?.expect(urgent)
    return isChanged
  }

  return {
    addAuthority: (authority, previous) =>
      db.transaction(async (tx) => {
        if ((await newestOf(tx, authority.role)) !== previous) return undefined
        const id = await addAfter(tx, authority, previous)
        return id === undefined ? undefined : { ...authority, id }
      }),
    async listAuthorities() {
      const rows = await AUTHORITIES.list(db, 'ORDER BY id DESC')
      return rows.map(({ previous: _, ...row }) => row as AuthorityRecord)
    },
    listRolls: async () => (await ROLLS.list(db, 'ORDER BY to_root DESC')) as readonly RollRecord[],
    beginRoll: (authorities, roll, entry) =>
      change(async (tx) => {
        // One after the other.
        await tx.get(LOCK, roll.fromRoot)
        if (await ROLLS.find(tx, UNDER_WAY, roll.fromRoot)) return false
        const ids: number[] = []
        for (const { crl, ...authority } of authorities) {
          const authorityId = await addNewest(tx, authority)
          if (crl) await CRLS.put(tx, { ...crl, authorityId })
          ids.push(authorityId)
        }
        const [toRoot = 0] = ids
        await ROLLS.add(tx, { ...roll, toRoot, stage: 'begun', usedAt: null })
        return true
      }, entry),
    changeRoll: ({ toRoot, stage: previous }, { stage, usedAt }, entry) =>
      change(async (tx) => (await tx.run(CHANGE_ROLL, stage, usedAt, toRoot, previous)) > 0, entry),
    async findInForce(authorities, now) {
      const params = [JSON.stringify(authorities.map(issuerDigest)), now]
      const [counted, rows] = await Promise.all([
        db.get<Pick<InForce, 'total' | 'until'>>(COUNT_IN_FORCE, ...params),
        db.all<{ domain: string }>(LAST_IN_FORCE, ...params),
      ])
      const { total = 0, until = null } = counted ?? {}
      return { total, until, names: rows.map(({ domain }) => domain) }
    },
    async dropAuthorityKey(id) {
      await db.run('UPDATE authorities SET sealed_key = NULL WHERE id = $1', id)
    },
    findCrl: (authorityId) => CRLS.find(db, CRL, authorityId),
    replaceCrl: ({ id, certificate }, now, next) =>
      db.transaction(async (tx) => {
        const [, stored, revoked] = await Promise.all([
          tx.get(LOCK, id),
          CRLS.find(tx, CRL, id),
          revokedOf(tx, certificate, now, db.runTime()),
        ])
        const record = next(stored, revoked)
        if (record !== stored) await CRLS.put(tx, { ...record, authorityId: id })
        return record
      }),
  }
}
