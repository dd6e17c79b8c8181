import { isObject } from '@gatehouse/net'
import { type Name, PkiError, type Profile, parseClientName, parseName } from '@gatehouse/pki'
import { Check } from 'typebox/schema'
import { IdentifierSchema, toIdentifier } from '../identifier.ts'
import { AcmeProblem, malformed } from './problems.ts'

const MAX_IDENTIFIERS = 100

/**
 * Reads the identifiers of newOrder: DNS names, wildcards, and canonical IP addresses (RFC 8555 section
 * 7.1.3, RFC 8738 section 3).
 *
 * @throws AcmeProblem `malformed`; `unsupportedIdentifier` or `rejectedIdentifier` with a subproblem for
 * each identifier that is refused
 */
export function readIdentifiers(list: unknown, profile: Profile = 'server'): readonly Name[] {
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_IDENTIFIERS)
    throw malformed(`an order has 1 to ${MAX_IDENTIFIERS} identifiers`)
  const names: Name[] = []
  const subproblems: AcmeProblem[] = []
  for (const value of list) {
    const read = readIdentifier(value, profile)
    if (read instanceof AcmeProblem) subproblems.push(read)
    else names.push(read)
  }
  const [first] = subproblems
  if (first) {
    const isSame = subproblems.every(({ type }) => type === first.type)
    const type = isSame ? first.type : 'rejectedIdentifier'
    throw new AcmeProblem(type, first.message, { subproblems })
  }
  if (new Set(names.map(({ text }) => text)).size < names.length)
    throw malformed('an identifier is given twice')
  return names
}

const TYPES: Readonly<Record<Profile, readonly string[]>> = {
  server: ['dns', 'ip'],
  client: ['dns', 'email', 'uri'],
}

function readIdentifier(value: unknown, profile: Profile): Name | AcmeProblem {
  if (!isObject(value) || typeof value.type !== 'string' || typeof value.value !== 'string')
    throw malformed('an identifier must have `type` and `value`')
  const types = TYPES[profile]
  if (!types.includes(value.type)) {
    const detail = `the type of an identifier must be ${types.join(' or ')}`
    return new AcmeProblem('unsupportedIdentifier', detail)
  }
  const identifier = Check(IdentifierSchema, value)
    ? { type: value.type, value: value.value }
    : undefined
  const rejected = (why: string) =>
    new AcmeProblem('rejectedIdentifier', why, identifier && { identifier })
  if (!identifier) return rejected('the value of an identifier is not printable ASCII, or too long')
  try {
    const name = (profile === 'client' ? parseClientName : parseName)(identifier.value)
    const { type, value: canonical } = toIdentifier(name)
    if (type !== identifier.type) return rejected(`${canonical} is not of type ${identifier.type}`)
    if (type === 'ip' && canonical !== identifier.value)
      return rejected(`the canonical form of the address is ${canonical}`)
    return name
  } catch (cause) {
    if (cause instanceof PkiError) return rejected(cause.message)
    throw cause
  }
}
