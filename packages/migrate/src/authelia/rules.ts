import { cidrContains, parseCidr } from '@gatehouse/net'

/** Whether a pattern fits all that another one fits. Of two patterns, one does, or nothing fits both. */
const COVERS = {
  hosts: (wide: string, narrow: string) => wide.startsWith('*.') && narrow.endsWith(wide.slice(1)),
  paths: (wide: string, narrow: string) =>
    wide.endsWith('/*/*')
      ? narrow.startsWith(wide.slice(0, -3)) && narrow !== wide.slice(0, -2)
      : wide.endsWith('/*') && `${narrow}/`.startsWith(wide.slice(0, -1)),
  methods: () => false,
  from(wide: string, narrow: string) {
    const [outer, inner] = [parseCidr(wide), parseCidr(narrow)]
    return !!outer && !!inner && outer.prefix <= inner.prefix && cidrContains(outer, inner.network)
  },
}

/** The requests that a rule is for, in the members of our rules. One that is missing fits all. */
export type RulePlace = { readonly [Member in keyof typeof COVERS]?: readonly string[] | undefined }

/** A rule of Authelia, or its default. */
export interface TheirRule {
  /** The name for comments. */
  readonly name: string
  readonly place: RulePlace
  /** The condition of the people whom it is for, who may pass then. Default: everybody. */
  readonly subject?: string | undefined
  readonly policy: string
  /** What a person has to write. */
  readonly task?: string | undefined
}

/** A place, and the rules of theirs that decide there: the first one that is for a person. The last one is for all. */
export interface RuleChain {
  readonly place: RulePlace
  readonly chain: readonly TheirRule[]
}

/**
 * Makes rows that look at the request alone of rules that look at the person too: where one is for some people, those
 * after it decide about the others, for the requests that both are for.
 * @param place - the requests to decide about, which the rules of the chain are for
 */
export function expandRules(
  rules: readonly TheirRule[],
  place: RulePlace = {},
  chain: readonly TheirRule[] = [],
): RuleChain[] {
  const rows: RuleChain[] = []
  for (const [index, rule] of rules.entries()) {
    const shared = intersectionOf(place, rule.place)
    if (!shared || rows.some((row) => decides(row, shared))) continue
    const others = rules.slice(index + 1)
    // Our GET includes HEAD.
    const { methods = [] } = shared
    if (methods.includes('GET') && !methods.includes('HEAD'))
      rows.push(...expandRules(others, { ...shared, methods: ['HEAD'] }, chain))
    const isForAll = rule.task !== undefined || rule.subject === undefined
    if (isForAll) rows.push({ place: shared, chain: [...chain, rule] })
    else rows.push(...expandRules(others, shared, [...chain, rule]))
    if (isSame(shared, place)) break
  }
  return rows
}

/** Whether a row is for all requests of a place, and needs nobody to write more. */
const decides = (row: RuleChain, place: RulePlace) =>
  row.chain.at(-1)?.task === undefined && isSame(intersectionOf(place, row.place), place)

const isSame = (left: RulePlace | undefined, right: RulePlace) =>
  JSON.stringify(left) === JSON.stringify(right)

function intersectionOf(left: RulePlace, right: RulePlace): RulePlace | undefined {
  const shared = Object.entries(COVERS).map(([key, covers]) => {
    const [ours, theirs] = [left[key as keyof RulePlace], right[key as keyof RulePlace]]
    if (!ours || !theirs) return [key, ours ?? theirs] as const
    const isIn = (list: readonly string[]) => (text: string) =>
      list.some((wide) => wide === text || covers(wide, text))
    return [
      key,
      [...new Set([...ours.filter(isIn(theirs)), ...theirs.filter(isIn(ours))])],
    ] as const
  })
  if (shared.some(([, list]) => list?.length === 0)) return undefined
  return Object.fromEntries(shared.filter(([, list]) => list))
}

export const SECOND_FACTOR = 'second-factor'
/** Whatever else a policy is denies. */
export const isAdmitting = (policy = '') => /^(bypass|one_factor|two_factor)$/.test(policy)

/** What is required of everybody. @param nameOf - names a condition */
export function requirementOf(
  chain: RuleChain['chain'],
  nameOf: (condition: string) => string,
): string | readonly string[] {
  if (chain.every(({ policy, subject }) => policy === 'bypass' && subject === undefined))
    return 'anyone'
  const subjects = chain.flatMap(({ subject }) => subject ?? [])
  const needsTwo = chain.some(({ policy }) => policy === 'two_factor')
  const names = [
    ...(isAdmitting(chain.at(-1)?.policy) ? [] : [nameOf(subjects.join(' || ') || 'false')]),
    ...(needsTwo ? [SECOND_FACTOR] : []),
  ]
  return names.length > 1 ? names : (names[0] ?? 'signedIn')
}
