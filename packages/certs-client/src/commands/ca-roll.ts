import { readFile } from 'node:fs/promises'
import { UsageError } from '@gatehouse/service-kit/program'
import type { RollAnswer } from '../service.ts'
import { kebab } from '../settings.ts'
import { ask, type CommandOptions, type Io, shortTime } from './certificates.ts'
import { firstOf, labelled } from './table.ts'

/** Addresses, and clients, that people are shown. */
const MAX_SHOWN = 5

/** The steps, with the options of each. */
const STEPS = {
  begin: ['root', 'rootKey', 'signerKey', 'noCross'],
  status: [],
  use: ['now'],
  back: [],
  finish: ['force', 'forgetKey'],
  cancel: [],
} as const

/** Takes a step of the roll from one root to the next, or says how far it has come. @throws UsageError, ClientError */
export async function caRoll(step: string, options: CommandOptions, io: Io): Promise<string> {
  checkStep(step, options)
  const { root, rootKey, signerKey, noCross, now, force, forgetKey } = options
  const [rootPem, key, signerPem] = await Promise.all([root, rootKey, signerKey].map(readPem))
  const body = {
    ...{ action: step, root: rootPem, key, signerKey: signerPem, now, force, forgetKey },
    ...(noCross && { cross: false }),
  }
  return ask(options, io, async (service) => {
    const value = await (step === 'status' ? service.roll() : service.takeRollStep(body))
    return { value, text: describeRoll(value) }
  })
}

function checkStep(step: string, options: CommandOptions): void {
  if (!Object.hasOwn(STEPS, step))
    throw new UsageError(`${step} is no step of a roll: ${Object.keys(STEPS).join(', ')}`)
  for (const [other, names] of Object.entries(STEPS))
    for (const name of names)
      if (other !== step && options[name])
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
    root && `${root.subject}, ends ${shortTime(root.notAfter)}, SHA-256 ${root.fingerprint256}`
  const lines = {
    stage,
    'begun at': roll.begunAt && shortTime(roll.begunAt),
    'used since': roll.usedAt && shortTime(roll.usedAt),
    [to ? 'old root' : 'root']: rootText(from),
    'new root': rootText(to),
    'in force below the old root':
      to && (total === 0 ? '0' : `${total} until ${shortTime(until)}, such as ${names.join(', ')}`),
    'who refuses these': stage === 'finished' && total > 0 && 'whoever trusts only the new root',
    'renew these': isNewUsed && renewable > 0 && `gatehouse-certs renew --under ${from?.keyId}`,
    'clients that lack the new root': firstOf(roll.lacking ?? [], MAX_SHOWN),
    'cut off by the new root': roll.lostRoot && `whoever trusts only ${roll.lostRoot.subject}`,
    'both roots were fetched from':
      to && [`${fetchedFrom.length} addresses`, ...fetchedFrom.slice(0, MAX_SHOWN)].join(', '),
    'not known': to && 'what programs and devices trust that do not say so',
    'next step': next && `${next.action}, from ${shortTime(next.from)}`,
    'not confirmed by': roll.unconfirmed?.join(', '),
  }
  const shown = Object.entries(lines).flatMap(([label, text]) => (text ? [[label, text]] : []))
  return labelled(Object.fromEntries(shown))
}
