import type { InForce, RollRecord } from '@gatehouse/cert-store/port'
import type { Authority } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { DAY, toTime } from '../times.ts'
import { nameOf } from './next-root.ts'

/** The time in which clients learn to trust the new root before it signs. */
const USED_AFTER = 14 * DAY
/** The time for which the new root has to sign before nobody is to trust the old one. */
const FINISHED_AFTER = 30 * DAY
const MAX_TOLD = 10

/** What to do with a roll that has begun. */
export type RollStep = 'use' | 'back' | 'finish' | 'cancel'

/** Says what a stage means for the two roots of a roll, by their ids: which one signs, and which are to be trusted. */
export function rootsAt({ stage, fromRoot, toRoot }: RollRecord): {
  readonly signer: number
  readonly anchors: readonly number[]
} {
  if (stage === 'cancelled') return { signer: fromRoot, anchors: [fromRoot] }
  if (stage === 'begun') return { signer: fromRoot, anchors: [fromRoot, toRoot] }
  return { signer: toRoot, anchors: stage === 'used' ? [toRoot, fromRoot] : [toRoot] }
}

/** Finds the roll that says which root signs: the newest, unless a root came after it that no roll led to. */
export function rollInForce(
  [roll]: readonly RollRecord[],
  { newest, configured }: { readonly newest: number; readonly configured: number | undefined },
): RollRecord | undefined {
  const isAbout =
    configured === undefined
      ? newest === roll?.toRoot
      : configured === roll?.fromRoot || (configured === roll?.toRoot && roll.stage !== 'cancelled')
  return isAbout ? roll : undefined
}

/** What is known of who trusts a root. */
export interface RootTrust {
  /** The clients that do not trust it, as they say. */
  readonly lacking: readonly string[]
  /** The addresses that have fetched it. */
  readonly fetchedFrom: readonly string[]
}

/** What is still below a root. */
interface RootUse {
  readonly inForce: InForce
  /** The key identifier of the root, by which `gatehouse-certs renew` finds them. */
  readonly keyId: string
}

/** What a step has to wait for: what is below the root from which it rolls, and who trusts the new one. */
export interface RollFacts extends RootTrust, RootUse {
  readonly now: number
  /** What is below the new root. */
  readonly newRootUse: RootUse
  /** Whether clients that trust only the old root accept what the new one signs. */
  readonly isCrossed: boolean
  /** The root before the old one, if the new one cuts off whoever trusts only that. */
  readonly lostRoot: Authority | undefined
}

/** Says from when on the next step is possible, as far as the clock decides that. */
export function nextStep(
  { stage, begunAt, usedAt }: RollRecord,
  until: number | null,
): { readonly action: 'use' | 'finish'; readonly from: number } | undefined {
  if (stage === 'finished' || stage === 'cancelled') return undefined
  if (stage === 'begun') return { action: 'use', from: begunAt + USED_AFTER }
  return { action: 'finish', from: Math.max((usedAt ?? begunAt) + FINISHED_AFTER, until ?? 0) }
}

/** The stages before and after each step, and the cure at another stage. */
const STAGES = {
  use: ['begun', 'used', 'begin again'],
  back: ['used', 'begun', 'there is no way back from there, so begin again'],
  finish: ['used', 'finished', 'use a new root first'],
  cancel: ['begun', 'cancelled', 'after use, go back first; after finish, begin again'],
} as const

/**
 * Decides on a step: the roll as it is then, or `undefined` if it is there already.
 * @param isForced - whether nothing is waited for
 * @throws IssuanceError CERT_ROLL_REFUSED
 */
export function stepOf(
  roll: RollRecord,
  step: RollStep,
  facts: RollFacts,
  isForced: boolean,
): Pick<RollRecord, 'stage' | 'usedAt'> | undefined {
  const [previous, stage, cure] = STAGES[step]
  if (roll.stage === stage) return undefined
  if (roll.stage !== previous) throw refusal(`the stage is ${roll.stage}, not ${previous}: ${cure}`)
  const reasons = isForced ? [] : reasonsAgainst(step, roll, facts)
  if (reasons.length > 0)
    throw refusal(reasons.join('; '), step === 'cancel' ? undefined : `${step} --force`)
  const times = { use: facts.now, back: null, finish: roll.usedAt, cancel: null }
  return { stage, usedAt: times[step] }
}

function reasonsAgainst(step: RollStep, roll: RollRecord, facts: RollFacts): readonly string[] {
  const { now, lacking, isCrossed, lostRoot } = facts
  if (step === 'back') return []
  if (step === 'cancel') return inUse('new', facts.newRootUse, now)
  const { from = now } = nextStep(roll, null) ?? {}
  const isEarly = now < from ? [`it is possible from ${toTime(from)}`] : []
  const isCut = lostRoot ? [`it cuts off whoever trusts only ${nameOf(lostRoot)}`] : []
  const isLacking =
    lacking.length > 0 ? [`clients that lack the new root: ${firstOf(lacking)}`] : []
  if (step === 'use') return [...isEarly, ...isCut, ...(isCrossed ? [] : isLacking)]
  return [...isEarly, ...inUse('old', facts, now), ...isLacking]
}

/** Says which certificates are in force below a root. */
function inUse(which: 'old' | 'new', { inForce, keyId }: RootUse, now: number): readonly string[] {
  const { total, renewable, names, until } = inForce
  if (total === 0) return []
  const last = `until ${toTime(until ?? now)}, such as ${names.join(', ')}`
  const cure =
    renewable > 0
      ? `renew ${renewable} of them by \`gatehouse-certs renew --under ${keyId}\``
      : 'they were replaced or nobody fetches them, so wait until they end'
  return [`${total} certificates below the ${which} root are in force ${last}: ${cure}`]
}

function firstOf(clients: readonly string[]): string {
  const more = clients.length - MAX_TOLD
  return `${clients.slice(0, MAX_TOLD).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export function refusal(why: string, command?: string): IssuanceError {
  const action = `\`gatehouse-certs ca roll ${command}\` does not wait: whoever trusts only one of the roots may then fail.`
  return new IssuanceError('CERT_ROLL_REFUSED', why, command ? { members: { action } } : {})
}
