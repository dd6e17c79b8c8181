import type { Path } from '../draft.ts'

/** The people who may come in: a condition, or lists that the schema of `allow` has. All of them must hold. */
export interface Access {
  readonly condition?: string
  readonly emailDomains?: readonly string[]
  readonly groups?: readonly string[]
}

interface Emails {
  /** `*` is everybody with an address, `.example.com` and `*.example.com` all domains below that one. */
  readonly domains: readonly string[]
  readonly addresses: readonly string[]
  /** The claim that has the address. */
  readonly claim?: string
}

/** Grants access by e-mail address: an address of one of the domains, or one of the list. */
export function accessByEmail({ domains, addresses, claim = 'email' }: Emails): Access {
  const isEmail = claim === 'email'
  const value = isEmail ? 'claims.email' : `claims[${JSON.stringify(claim)}]`
  if (domains.includes('*'))
    return { condition: isEmail ? 'EmailVerified()' : `${JSON.stringify(claim)} in claims` }
  const parents = domains.filter((domain) => /^(\*?)\./.test(domain))
  if (isEmail && parents.length === 0 && addresses.length === 0) return { emailDomains: domains }
  const parts = [
    ...domains.map((domain) => {
      const end = parents.includes(domain) ? domain.replace('*', '') : `@${domain}`
      return `${value}.endsWith(${JSON.stringify(end)})`
    }),
    ...(addresses.length > 0 ? [`${value} in ${listOf(addresses)}`] : []),
  ]
  const test = parts.length > 1 && isEmail ? `(${parts.join(' || ')})` : parts.join(' || ')
  return { condition: isEmail ? `EmailVerified() && ${test}` : test }
}

export const listOf = (texts: readonly string[]) =>
  `[${texts.map((text) => JSON.stringify(text)).join(', ')}]`

export function accessByMembership(
  groups: readonly string[],
  conditions: readonly string[],
): Access | undefined {
  if (conditions.length === 0) return groups.length > 0 ? { groups } : undefined
  const parts = [...groups.map((group) => `Group(${JSON.stringify(group)})`), ...conditions]
  return { condition: parts.join(' || ') }
}

/** Joins what must hold in all of them, as `allow`. */
export function allOf(parts: readonly (Access | undefined)[]): Access {
  const conditions = parts.flatMap((part) => part?.condition ?? [])
  const condition =
    conditions.length > 1
      ? conditions.map((part) => (part.includes('||') ? `(${part})` : part)).join(' && ')
      : conditions[0]
  return Object.assign({}, ...parts, condition === undefined ? {} : { condition })
}

/** Joins access by any of them. Undefined is everybody. */
export function anyOf(parts: readonly (Access | undefined)[]): Access | undefined {
  const accesses = parts.filter((part) => part !== undefined)
  if (accesses.length < parts.length) return undefined
  if (accesses.length === 1) return accesses[0]
  return { condition: accesses.map((access) => `(${conditionOf(access)})`).join(' || ') }
}

/** Writes access by e-mail address as one condition. */
export function conditionOf({ condition, emailDomains = [] }: Access): string {
  const ends = emailDomains.map(
    (domain) => `claims.email.endsWith(${JSON.stringify(`@${domain}`)})`,
  )
  return condition ?? `EmailVerified() && (${ends.join(' || ')})`
}

/** Writes `allow` in its shortest form. */
export function allowOf({ condition, ...lists }: Access): unknown {
  if (condition === undefined) return lists
  return Object.keys(lists).length === 0 ? condition : { condition, ...lists }
}

export const PORTAL: Path = ['portals', 0]
export const PROVIDER: Path = [...PORTAL, 'providers', 0]
