import type { AuthDeps } from '@gatehouse/auth-core'
import { compileAllow } from '@gatehouse/profile'
import { headerRows } from './header-presets.ts'
import { compileHosts } from './hosts.ts'
import type { GateConfig } from './options.ts'
import type { Policy } from './policy.ts'

/** Characters of groups in all headers: with what else is sent they fit into the 4 kB that nginx takes by default. */
const MAX_LENGTH = 3_072
/** Between two warnings, in ms. */
const HOUR = 3_600_000
const TOO_MANY = 'somebody has more groups than fit into headers: set `groups` of the portal'

export type GroupFilter = ReturnType<typeof createGroupFilter>

/** Compiles which groups the apps of a portal are told of. */
export function createGroupFilter(
  { name: portal, groups = ['*'], headers, allow, providers }: GateConfig,
  policies: ReadonlyMap<string, Policy>,
  { now, log }: AuthDeps,
) {
  const rows = groups.filter((row) => typeof row !== 'string')
  const portalRow = { groups: groups.filter((row) => typeof row === 'string') }
  const lists = [portalRow, ...rows].map((row) => row.groups.map(compilePattern))
  const allows = [{ allow }, ...providers].map((source) => compileAllow(source.allow ?? 'anyone'))
  const conditions = [...policies.values()].flatMap(({ condition }) => condition ?? [])
  const policyGroups = new Set([...conditions, ...allows].flatMap(({ texts }) => texts))
  const times = headerRows(headers).filter((row) =>
    'claim' in row ? row.claim === 'groups' : ['groups', 'json'].includes(row.property),
  ).length
  // About what each takes, in any encoding.
  const lengthOf = (some: readonly string[]) => encodeURIComponent(some.join()).length
  const fits = (some: readonly string[]) => times * lengthOf(some) <= MAX_LENGTH
  let warned = Number.NEGATIVE_INFINITY
  return {
    hosts: rows.map((row) => compileHosts(row.hosts)),
    /** What apps of a row (0: of none) may know, and what fits into headers: all that, what the portal names, or nothing. */
    narrow(row: number, personGroups: readonly string[]) {
      const shared = personGroups.filter((group) => lists[row]?.some((isOf) => isOf(group)))
      const relevant = shared.filter((group) => policyGroups.has(group))
      const fitting = [shared, relevant].find(fits) ?? []
      if (fitting !== shared && Math.abs(now() - warned) >= HOUR) {
        log.warn({ portal, groups: shared.length, told: fitting.length }, TOO_MANY)
        warned = now()
      }
      return { shared, fitting }
    },
  }
}

/** Compiles a pattern in which `*` stands for any text. Its parts are looked for from left to right, each once. */
export function compilePattern(pattern: string): (text: string) => boolean {
  const [prefix = '', ...parts] = pattern.split('*')
  const suffix = parts.pop()
  if (suffix === undefined) return (text) => text === pattern
  return (text) => {
    if (!text.startsWith(prefix) || !text.endsWith(suffix)) return false
    let position = prefix.length
    for (const part of parts) {
      const index = text.indexOf(part, position)
      if (index < 0) return false
      position = index + part.length
    }
    return position <= text.length - suffix.length
  }
}
