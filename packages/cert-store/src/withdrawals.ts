import { hash, X509Certificate } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import type { Engine, Queries, Transaction } from '@gatehouse/store'
import type { AuditLog } from './audit.ts'
import { addTransitions, isLive, issuerDigest } from './certificates.ts'
import type { Orders } from './orders.ts'
import type { SharedChanges } from './replicas/changes.ts'
import { IDS } from './sql.ts'
import type { AuditEntry, RevokedCertificate, Store } from './store.ts'
import { COMPROMISED_KEYS } from './tables.ts'

const lock = (which: string) =>
  `SELECT id, request_key AS "requestKey" FROM certificates WHERE id IN (${IDS}) AND ${which} ORDER BY id FOR UPDATE`
/** SQL by action: another one may have done it just now. */
const LOCK = { revoke: lock('revoked_at IS NULL'), delete: lock('is_current') }
const RETIRE = `
  UPDATE certificates SET is_current = false, sealed_key = NULL WHERE id IN (${IDS})`
const FORGET_NAMES_OF = `DELETE FROM certificate_names WHERE certificate IN (${IDS})`
const REVOKE = `
  UPDATE certificates SET revoked_at = $2, revocation_reason = $3
  WHERE id IN (${IDS}) AND revoked_at IS NULL AND ${isLive('$2', '$4')}
  RETURNING serial_number AS "serialNumber"`
const REVOKED = `
  SELECT serial_number AS "serialNumber", revoked_at AS "revokedAt", revocation_reason AS reason
  FROM certificates
  WHERE revoked_at IS NOT NULL AND ${isLive('$2', '$3')}
    AND chain IN (SELECT id FROM chains WHERE issuer = $1)
  ORDER BY revoked_at, id`

interface Locked {
  readonly id: number
  readonly requestKey: string
}

interface Parts {
  readonly orders: Orders
  readonly audit: AuditLog
  readonly changes: SharedChanges | undefined
}

/** Takes certificates out of service. */
export class Withdrawals {
  readonly #db: Engine
  readonly #parts: Parts

  constructor(db: Engine, parts: Parts) {
    this.#db = db
    this.#parts = parts
  }

  revoke: Store['revoke'] = (ids, at, reason, entry) =>
    this.#withdraw(ids, entry, async (tx, list) => {
      const rows = await tx.all<{ serialNumber: string }>(
        REVOKE,
        list,
        at,
        reason,
        this.#db.runTime(),
      )
      return rows.map(({ serialNumber }) => serialNumber)
    })

  compromise: Store['compromise'] = async (certificates, at) => {
    const keys = new Set(certificates.flatMap((one) => spkiSha256Of(one) ?? []).sort())
    await this.#db.transaction(async (tx) => {
      for (const spkiSha256 of keys)
        await COMPROMISED_KEYS.add(tx, { spkiSha256, at }, ' ON CONFLICT DO NOTHING')
    })
  }

  remove = (ids: readonly number[], entry: AuditEntry): Promise<void> =>
    this.#withdraw(ids, entry, async () => {})

  listRevoked = (issuer: Uint8Array, now: number) => this.revokedOf(this.#db, issuer, now)

  isCompromised = async (spkiSha256: string) =>
    (await COMPROMISED_KEYS.find(this.#db, 'WHERE spki_sha256 = $1', spkiSha256)) !== undefined

  /** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
  revokedOf(on: Queries, issuer: Uint8Array, now: number): Promise<readonly RevokedCertificate[]> {
    return on.all<RevokedCertificate>(REVOKED, issuerDigest(issuer), now, this.#db.runTime())
  }

  /** Takes certificates out of service, and has the others confirm it. */
  async #withdraw<T>(
    ids: readonly number[],
    entry: AuditEntry,
    change: (tx: Transaction, list: string) => Promise<T>,
  ): Promise<T> {
    const { orders, audit, changes } = this.#parts
    const { at, actor } = entry
    const action = entry.action === 'delete' ? 'delete' : 'revoke'
    const { result, urgent } = await this.#db.transaction(async (tx) => {
      const locked = await tx.all<Locked>(LOCK[action], JSON.stringify(ids))
      const list = JSON.stringify(locked.map(({ id }) => id))
      if (locked.length > 0) await audit.add(tx, entry)
      await addTransitions(
        tx,
        locked.map(({ id }) => ({ certificate: id, at, action, actor, account: null })),
      )
      await orders.forget(tx, ids)
      await tx.run(RETIRE, list)
      const result = await change(tx, list)
      await tx.run(FORGET_NAMES_OF, list)
      const requestKeys = new Set(locked.map(({ requestKey }) => requestKey))
      return { result, urgent: await changes?.noteUrgent(tx, [...requestKeys]) }
    })
    if (urgent !== undefined) changes?.expect(urgent)
    return result
  }
}

/** As OpenSSL writes it. A certificate that cannot be read is revoked all the same, and has none. */
function spkiSha256Of(certificate: Uint8Array): string | undefined {
  return attempt(() => {
    const { publicKey } = new X509Certificate(certificate)
    return hash('sha256', publicKey.export({ type: 'spki', format: 'der' }))
  })
}
