import { hash, X509Certificate } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import type { Engine, Queries, RowOf, Transaction } from '@gatehouse/store'
import { forgetOrders } from '../orders/orders.ts'
import type { AuditEntry, RevokedCertificate, Withdrawals } from '../port/store.ts'
import { IDS } from '../schema/sql.ts'
import { type CERTIFICATES, COMPROMISED_KEYS } from '../schema/tables.ts'
import { addTransitions, type CertificateParts, isLive, issuerDigest } from './certificates.ts'

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

type Locked = Pick<RowOf<typeof CERTIFICATES>, 'id' | 'requestKey'>

export function withdrawalsOn(db: Engine, { audit, changes }: CertificateParts): Withdrawals {
  /** Takes certificates out of service, and has the others confirm it. */
  async function withdraw<T>(
    ids: readonly number[],
    entry: AuditEntry,
    change: (tx: Transaction, list: string) => Promise<T>,
  ): Promise<T> {
    const { at, actor } = entry
    const action = entry.action === 'delete' ? 'delete' : 'revoke'
    const { result, urgent } = await db.transaction(async (tx) => {
      const locked = await tx.all<Locked>(LOCK[action], JSON.stringify(ids))
      const list = JSON.stringify(locked.map(({ id }) => id))
      if (locked.length > 0) await audit.add(tx, entry)
      await addTransitions(
        tx,
        locked.map(({ id }) => ({ certificate: id, at, action, actor, account: null })),
      )
      await forgetOrders(tx, ids)
      await tx.run(RETIRE, list)
      const result = await change(tx, list)
      await tx.run(FORGET_NAMES_OF, list)
      const requestKeys = new Set(locked.map(({ requestKey }) => requestKey))
      return { result, urgent: await changes?.noteUrgent(tx, [...requestKeys]) }
    })
    if (urgent !== undefined) changes?.expect(urgent)
    return result
  }

  return {
    revoke: (ids, revokedAt, reason, entry) =>
      withdraw(ids, entry, async (tx, list) => {
        const rows = await tx.all<{ serialNumber: string }>(
          REVOKE,
          list,
          revokedAt,
          reason,
          db.runTime(),
        )
        return rows.map(({ serialNumber }) => serialNumber)
      }),
    async compromise(certificates, now) {
      const keys = new Set(
        certificates.flatMap((certificate) => spkiSha256Of(certificate) ?? []).sort(),
      )
      await db.transaction(async (tx) => {
        for (const spkiSha256 of keys)
          await COMPROMISED_KEYS.add(tx, { spkiSha256, at: now }, ' ON CONFLICT DO NOTHING')
      })
    },
    remove: (ids, entry) => withdraw(ids, entry, async () => {}),
    listRevoked: (issuer, now) => revokedOf(db, issuer, now, db.runTime()),
    isCompromised: async (spkiSha256) =>
      (await COMPROMISED_KEYS.find(db, 'WHERE spki_sha256 = $1', spkiSha256)) !== undefined,
  }
}

/** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
export function revokedOf(on: Queries, issuer: Uint8Array, now: number, ran: number) {
  return on.all<RevokedCertificate>(REVOKED, issuerDigest(issuer), now, ran)
}

/** The digest as OpenSSL writes it; undefined for a certificate that cannot be read, which is revoked all the same. */
function spkiSha256Of(certificate: Uint8Array): string | undefined {
  return attempt(() => {
    const { publicKey } = new X509Certificate(certificate)
    return hash('sha256', publicKey.export({ type: 'spki', format: 'der' }))
  })
}
