import type { CertificateRecord, ProbeRecord, ProbeState } from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import type { FastifyInstance } from 'fastify'
import type { Principal } from '../policy/rules.ts'

/**
 * What readers are told who may not read every name, from the best to the worst: nothing of networks that they may not know, into
 * which they might have their names lead.
 */
export const SERVED = ['newest', 'notSeen', 'other', 'older'] as const
export type ServedWord = (typeof SERVED)[number]

const WORDS: Readonly<Record<ProbeState, ServedWord>> = {
  ...{ newest: 'newest', incomplete: 'newest' },
  ...{ older: 'older', revoked: 'older', ended: 'older', other: 'other' },
  ...{ wrongName: 'notSeen', unreachable: 'notSeen', outside: 'notSeen' },
}

/** Says in a word what is served at these places, the worst of all. Undefined if nobody has looked. */
export function servedAt(probes: readonly Pick<ProbeRecord, 'state'>[]): ServedWord | undefined {
  const words = probes.map(({ state }) => WORDS[state])
  return SERVED.findLast((word) => words.includes(word))
}

/** Whether a reader may know addresses, and what is at each of them. */
export function seesPlaces(
  { policy }: Pick<FastifyInstance, 'policy'>,
  reader: Principal,
): boolean {
  return policy.scopeOf(reader, 'read').isAll
}

/** What is known of the names of each of these certificates of servers. */
export async function probesOf(
  { store }: Pick<FastifyInstance, 'store'>,
  records: readonly CertificateRecord[],
): Promise<readonly (readonly ProbeRecord[])[]> {
  const ofServers = records.map((record) => (profileOf(record) === 'server' ? record.names : []))
  const probes = await store.listProbes([...new Set(ofServers.flat())])
  return ofServers.map((names) => probes.filter(({ name }) => names.includes(name)))
}
