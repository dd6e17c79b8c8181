import type { RowOf } from '@gatehouse/store'
import type { PROBES } from '../schema/tables.ts'

/**
 * What is served at a place. `newest`: the newest certificate of a lineage. `older`: one that was replaced. `other`: one of somebody
 * else. `incomplete`: the newest without those that lead to a root. `wrongName`: one for other names. `outside`: the
 * address is not to be looked at.
 */
export const PROBE_STATES = [
  ...(['newest', 'older', 'other', 'revoked', 'ended'] as const),
  ...(['incomplete', 'wrongName', 'unreachable', 'outside'] as const),
] as const
export type ProbeState = (typeof PROBE_STATES)[number]

export interface ProbeRecord extends Omit<RowOf<typeof PROBES>, 'state' | 'keyType'> {
  readonly state: ProbeState
  readonly keyType: 'rsa' | 'ec' | ''
}

/** Places of a name that callers may tell of. */
export const MAX_REPORTS = 20
/** The time in which servers take up a new certificate, in ms: until then, none is missed. */
const PATIENCE = 3_600_000

/** SQL: that a server has to be told to serve the newest one. The current time is a parameter. */
export const notServed = (now: string) =>
  `(state IN ('other', 'revoked', 'ended') OR state = 'older' AND since <= ${now}::bigint - ${PATIENCE})`

/** The same for a row. */
export function isNotServed({ state, since }: Pick<ProbeRecord, 'state' | 'since'>, now: number) {
  if (state === 'older') return since <= now - PATIENCE
  return state === 'other' || state === 'revoked' || state === 'ended'
}

/** Keeps what is served under the names of certificates. */
export interface Probes {
  /** Lists what is known of these names. */
  listProbes(names: readonly string[]): Promise<readonly ProbeRecord[]>
  /** Puts a row in place of the one of the same place. With 10,000 rows, no other place is added. */
  saveProbe(probe: Omit<ProbeRecord, 'id'>): Promise<void>
  countProbes(): Promise<Readonly<Record<string, number>>>
  /** The places where the newest certificate is not served, the longest first. */
  listNotServed(
    now: number,
    limit: number,
  ): Promise<readonly Pick<ProbeRecord, 'name' | 'port' | 'since'>[]>
  /** Deletes what was not seen for 7 days; places that served something and were looked at, if they were last seen before `latest`. */
  pruneProbes(now: number, latest: number): Promise<void>
}
