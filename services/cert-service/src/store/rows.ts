import type { AuditRecord, CrlRecord, OrderRecord } from './records.ts'

/** Of a certificate in a history, but for its lineage and whether it is in service. */
export const HISTORY_COLUMNS =
  'id, issuer, names, keyType, serialNumber, notBefore, notAfter, madeAt, revokedAt, revocationReason'

/** `key_type` for the member `keyType`. */
export function columnOf(member: string): string {
  return member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Selects columns: `keyType` becomes `key_type AS "keyType"`, for each of the members that are listed. */
export function columns(members: string): string {
  return members.replace(/\w+/g, (member) => `${columnOf(member)} AS "${member}"`)
}

/** An order as both engines store it, but for the names. */
export type OrderRow = Omit<OrderRecord, 'lastError' | 'checkpoint' | 'askedBy'> & {
  /** JSON. */
  readonly lastError: string | null
  /** JSON. */
  readonly state: string | null
  readonly sealedKey: Uint8Array | null
  readonly askedBy: string | null
}

export function toOrder({ lastError, state, sealedKey, askedBy, ...rest }: OrderRow): OrderRecord {
  return {
    ...rest,
    lastError: lastError && JSON.parse(lastError),
    ...(state !== null && { checkpoint: { state: JSON.parse(state), sealedKey } }),
    ...(askedBy !== null && { askedBy }),
  }
}

export type CrlRow = Omit<CrlRecord, 'number'> & {
  /** Decimal: RFC 5280 allows 20 octets. */
  readonly number: string
}

export function toCrl(row: CrlRow | undefined): CrlRecord | undefined {
  return row && { ...row, number: BigInt(row.number) }
}

/** An entry of the audit trail, without what is NULL. */
export function toAudit(row: object): AuditRecord {
  return Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== null),
  ) as unknown as AuditRecord
}
