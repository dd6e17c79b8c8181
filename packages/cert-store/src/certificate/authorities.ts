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
const CANCELLED = `
  SELECT max(to_root) AS id FROM rolls WHERE from_root = $1 AND stage = 'cancelled'`
const CHANGE_ROLL = `
  UPDATE rolls SET stage = $1, used_at = $2 WHERE to_root = $3 AND stage = $4`
const DROP_KEY = 'UPDATE authorities SET sealed_key = NULL WHERE id = $1 AND sealed_key IS NOT NULL'
const IN_FORCE = `
  SELECT domain, count(*) AS total, max(not_after) AS until,
    count(CASE WHEN is_current AND renew_at IS NOT NULL THEN 1 END) AS renewable
  FROM certificates
  WHERE revoked_at IS NULL AND not_after >= $2 AND chain IN (SELECT id FROM chains WHERE issuer IN (${TEXTS}))
  GROUP BY domain ORDER BY until DESC, domain`
/** Names of certificates in force that are told. */
const MAX_NAMES = 10

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
        const newest = await tx.get<{ id: number | null }>(NEWEST, authority.role)
        if (newest?.id !== previous) return undefined
        const row = { ...authority, previous: previous ?? 0 }
        // Another replica may add one meanwhile.
        const [id] = await AUTHORITIES.addAll(tx, [row], UNLESS_FOLLOWED)
        return id === undefined ? undefined : { ...authority, id }
      }),
    async listAuthorities() {
      const rows = await AUTHORITIES.list(db, 'ORDER BY id DESC')
      return rows.map(({ previous: _, ...row }) => row as AuthorityRecord)
    },
    listRolls: async () => (await ROLLS.list(db, 'ORDER BY to_root DESC')) as readonly RollRecord[],
    beginRoll: (authorities, { fromRoot, begunAt }, entry) =>
      change(async (tx) => {
        const ids: number[] = []
        const cancelled = await tx.get<{ id: number | null }>(CANCELLED, fromRoot)
        const previous = -(cancelled?.id ?? fromRoot)
        for (const { crl, ...authority } of authorities) {
          const row = { ...authority, previous }
          const [authorityId] = await AUTHORITIES.addAll(tx, [row], UNLESS_FOLLOWED)
          // Another replica has rolled from this root.
          if (authorityId === undefined) return false
          if (crl) await CRLS.put(tx, { ...crl, authorityId })
          ids.push(authorityId)
        }
        const [toRoot = 0] = ids
        await ROLLS.add(tx, { fromRoot, toRoot, stage: 'begun', begunAt, usedAt: null })
        return true
      }, entry),
    changeRoll: ({ toRoot, stage: previous }, { stage, usedAt }, entry) =>
      change(async (tx) => (await tx.run(CHANGE_ROLL, stage, usedAt, toRoot, previous)) > 0, entry),
    async findInForce(authorities, now) {
      const issuers = JSON.stringify(authorities.map(issuerDigest))
      const rows = await db.all<{ domain: string } & InForce>(IN_FORCE, issuers, now)
      return {
        total: rows.reduce((sum, { total }) => sum + total, 0),
        renewable: rows.reduce((sum, { renewable }) => sum + renewable, 0),
        names: rows.slice(0, MAX_NAMES).map(({ domain }) => domain),
        until: rows[0]?.until ?? null,
      }
    },
    dropAuthorityKey: (id, entry) =>
      db.transaction(async (tx) => {
        if ((await tx.run(DROP_KEY, id)) > 0 && entry) await audit.add(tx, entry)
      }),
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
