import { readFile } from 'node:fs/promises'
import { labelled, localTime, readChoice, UsageError } from '@gatehouse/service-kit/program'
import type { RollAnswer } from '../service.ts'
import { kebab } from '../settings.ts'
import { type CommandOptions, forEach } from './ask.ts'
import { firstOf } from './certificates.ts'

/** Addresses, and clients, that people are shown. */
const MAX_SHOWN = 5

/** The steps, with the options of each. */
const STEPS: Readonly<Record<string, readonly (keyof CommandOptions)[]>> = {
  begin: ['root', 'rootKey', 'signerKey', 'noCross'],
  status: [],
  use: ['force'],
  back: [],
  finish: ['force', 'forgetKey'],
  cancel: [],
}

/** Takes a step of the roll from one root to the next, or says how far it has come. */
export const caRoll = forEach(async (step, service, options) => {
  checkStep(step, options)
  const { root, rootKey, signerKey, noCross, force, forgetKey } = options
  const [rootPem, key, signerPem] = await Promise.all([root, rootKey, signerKey].map(readPem))
  const body = {
    ...{ action: step, root: rootPem, key, signerKey: signerPem, forgetKey },
    ...(step === 'use' ? { now: force } : { force }),
    ...(noCross && { cross: false }),
  }
  const value = await (step === 'status' ? service.roll() : service.takeRollStep(body))
  return { value, text: describeRoll(value) }
})

function checkStep(step: string, options: CommandOptions): void {
  readChoice('STEP', step, Object.keys(STEPS))
  for (const [other, names] of Object.entries(STEPS))
    for (const name of names)
      if (options[name] && !STEPS[step]?.includes(name))
        throw new UsageError(`--${kebab(name)} is an option of ${other}, not of ${step}`)
}

async function readPem(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined
  return readFile(file, 'utf8').catch(({ code }) => {
    throw new UsageError(`${file} cannot be read: ${code}`)
  })
}

function describeRoll({ stage, from, to, inForce, next, ...roll }: RollAnswer): string {
  const { total = 0, renewable = 0, names = [], until = '' } = inForce ?? {}
  const { fetchedFrom = [] } = roll
  // Before, the old root would sign again.
  const isNewUsed = stage === 'used' || stage === 'finished'
  const rootText = (root: RollAnswer['from']) =>
    root && `${root.subject}, ends ${localTime(root.notAfter)}, SHA-256 ${root.fingerprint256}`
  const lines = {
    stage,
    'begun at': roll.begunAt && localTime(roll.begunAt),
    'used since': roll.usedAt && localTime(roll.usedAt),
    [to ? 'old root' : 'root']: rootText(from),
    'new root': rootText(to),
    'in force below the old root':
      to && (total === 0 ? '0' : `${total} until ${localTime(until)}, such as ${names.join(', ')}`),
    'who refuses these': stage === 'finished' && total > 0 && 'whoever trusts only the new root',
    'renew these': isNewUsed && renewable > 0 && `gatehouse-certs renew --under ${from?.keyId}`,
    'clients that lack the new root': firstOf(roll.lacking ?? [], MAX_SHOWN),
    'cut off by the new root': roll.lostRoot && `whoever trusts only ${roll.lostRoot.subject}`,
    'both roots were fetched from':
      to && [`${fetchedFrom.length} addresses`, ...fetchedFrom.slice(0, MAX_SHOWN)].join(', '),
    'not known': to && 'what programs and devices trust that do not say so',
    'next step': next && `${next.action}, from ${localTime(next.from)}`,
    'not confirmed by': roll.unconfirmed?.join(', '),
  }
  return labelled(lines)
}
