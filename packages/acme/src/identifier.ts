import { parseIp } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { type Static, Type } from 'typebox'

export const IdentifierSchema = Type.Object({
  type: Type.Enum(['dns', 'ip', 'email', 'uri']),
  value: Type.String({ pattern: '^[!-~]{1,2048}$' }),
})

/**
 * An identifier of an order: a DNS name, a wildcard with its `*.`, an IP address (RFC 8738), or for clients an e-mail
 * address (RFC 8823) or a URI, for which there is no standard.
 */
export type Identifier = Readonly<Static<typeof IdentifierSchema>>

export const toIdentifier = ({ kind, text }: Name): Identifier => ({
  type: kind === 'wildcard' ? 'dns' : kind,
  value: text,
})

/** Whether both lists have the same identifiers, in any order and spelling. */
export function sameIdentifiers(a: readonly Identifier[], b: readonly Identifier[]): boolean {
  const keys = new Set(a.map(keyOf))
  return keys.size === new Set(b.map(keyOf)).size && b.map(keyOf).every((key) => keys.has(key))
}

const keyOf = ({ type, value }: Identifier): string =>
  type === 'ip' ? `ip ${parseIp(value)?.text}` : `dns ${value.toLowerCase()}`
