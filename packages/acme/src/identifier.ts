import { parseIp } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { type Static, Type } from 'typebox'

export const IdentifierSchema = Type.Object({
  type: Type.Enum(['dns', 'ip']),
  value: Type.String({ pattern: '^[!-~]{1,255}$' }),
})

/** An identifier of an order: a DNS name, a wildcard with its `*.`, or an IP address (RFC 8738). */
export type Identifier = Readonly<Static<typeof IdentifierSchema>>

export const toIdentifier = ({ kind, text }: Name): Identifier => ({
  type: kind === 'ip' ? 'ip' : 'dns',
  value: text,
})

/** Whether both lists have the same identifiers, in any order and spelling. */
export function sameIdentifiers(a: readonly Identifier[], b: readonly Identifier[]): boolean {
  const keys = new Set(a.map(keyOf))
  return keys.size === new Set(b.map(keyOf)).size && b.every((one) => keys.has(keyOf(one)))
}

const keyOf = ({ type, value }: Identifier): string =>
  type === 'ip' ? `ip ${parseIp(value)?.text}` : `dns ${value.toLowerCase()}`
