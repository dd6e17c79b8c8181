import type { RollRecord } from '@gatehouse/cert-store/port'
import { IssuanceError } from '../errors.ts'
import { DAY, toTime } from '../times.ts'

/** The time in which clients learn to trust the next root before it signs. */
const USED_AFTER = 14 * DAY
/** The time for which the next root has to sign before the one before is withdrawn. */
const FINISHED_AFTER = 30 * DAY
const MAX_TOLD = 10

type Stage = RollRecord['stage']

/** What to do with a roll that has begun. */
export type RollStep = 'use' | 'back' | 'finish'

/** The roots by their ids: the one that signs, and all to be trusted, that one first. */
export interface RootIds {
  readonly signing: number
  readonly published: readonly number[]
}

/** Says what a stage means for the two roots of a roll. */
export function rootsAt({ stage, fromRoot, toRoot }: RollRecord): RootIds {
  if (stage === 'begun') return { signing: fromRoot, published: [fromRoot, toRoot] }
  return { signing: toRoot, published: stage === 'used' ? [toRoot, fromRoot] : [toRoot] }
}

/** Finds the roll that says which root signs: the newest, unless a root came after it that no roll led to. */
export function rollInForce(
  rolls: readonly RollRecord[],
  { newest, configured }: { readonly newest: number; readonly configured: number | undefined },
): RollRecord | undefined {
  const [roll] = rolls
  if (!roll) return undefined
  const isAbout =
    configured === undefined
      ? newest === roll.toRoot
      : [roll.fromRoot, roll.toRoot].includes(configured)
  return isAbout ? roll : undefined
}

/** What has to wait for a step, and who is cut off by it. */
export interface RollFacts {
  readonly now: number
  /** The unexpired certificates below the root from which it rolls. */
  readonly inForce: {
    readonly total: number
    readonly names: readonly string[]
    readonly until: number | null
  }
  /** The clients that do not trust the next root. */
  readonly lacking: readonly string[]
}

/** Says from when a roll may be used or finished, as far as the clock decides that. */
export function earliest({ stage, begunAt, usedAt }: RollRecord, until: number | null): number {
  return stage === 'begun'
    ? begunAt + USED_AFTER
    : Math.max((usedAt ?? begunAt) + FINISHED_AFTER, until ?? 0)
}

const NEXT: Readonly<Record<RollStep, { readonly from: Stage; readonly to: Stage }>> = {
  use: { from: 'begun', to: 'used' },
  back: { from: 'used', to: 'begun' },
  finish: { from: 'used', to: 'finished' },
}

/**
 * Decides on a step: the roll as it is then, or `undefined` if it is there already.
 * @param isForced - whether nothing is waited for
 * @throws IssuanceError CERT_ROLL_STAGE, CERT_ROLL_TOO_SOON
 */
export function stepOf(
  roll: RollRecord | undefined,
  step: RollStep,
  facts: RollFacts,
  isForced: boolean,
): Pick<RollRecord, 'stage' | 'usedAt'> | undefined {
  const { from, to } = NEXT[step]
  if (roll?.stage === to) return undefined
  if (roll?.stage !== from)
    throw new IssuanceError('CERT_ROLL_STAGE', `the stage is ${roll?.stage ?? 'none'}, not ${from}`)
  const reasons = isForced ? [] : reasonsAgainst(roll, step, facts)
  if (reasons.length > 0) throw new IssuanceError('CERT_ROLL_TOO_SOON', reasons.join('; '))
  const usedAt = { use: facts.now, back: null, finish: roll.usedAt }[step]
  return { stage: to, usedAt }
}

function reasonsAgainst(
  roll: RollRecord,
  step: RollStep,
  { now, inForce: { total, names, until }, lacking }: RollFacts,
): readonly string[] {
  if (step === 'back') return []
  const from = earliest(roll, null)
  const isEarly = now < from ? [`it is possible from ${toTime(from)}`] : []
  if (step === 'use') return isEarly
  const ends = until === null ? '' : `, until ${toTime(until)}`
  return [
    ...isEarly,
    ...(total > 0
      ? [
          `${total} certificates below the old root are in force${ends}, such as ${names.join(', ')}`,
        ]
      : []),
    ...(lacking.length > 0 ? [`clients that lack the new root: ${firstOf(lacking)}`] : []),
  ]
}

function firstOf(clients: readonly string[]): string {
  const more = clients.length - MAX_TOLD
  return `${clients.slice(0, MAX_TOLD).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
