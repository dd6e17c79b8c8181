import { toTime } from '@gatehouse/net'
import { labelled, listing, readTime, type TableColumns } from '@gatehouse/service-kit/program'
import { clientClock } from '../clock.ts'
import type { IncidentAnswer } from '../service.ts'
import { forEach } from './ask.ts'
import { firstOf } from './certificates.ts'

/** Serial numbers and names, and certificates, that people are shown. */
const MAX_SHOWN = 5
const MAX_ROWS = 50

/**
 * Says what an API key has got that has leaked, or with `yes` ends and revokes it. If some of it is left then, the exit
 * code is 1.
 */
export const incidentKey = forEach(async (key, service, options, { fail }) => {
  const dryRun = options.yes !== true
  const before = options.before && toTime(readTime('--before', options.before, clientClock.now()))
  const value = await service.withdrawLeaked({ key, before, dryRun })
  const { notRevoked = [], issuing, accounts, revoked } = value
  const isLeft = notRevoked.length + issuing.length > 0
  if (isLeft) fail?.()
  const states = [
    isLeft && `Some of it is left: run it again with --before ${value.before}.`,
    accounts + revoked === 0 && 'Nothing of it is left.',
    dryRun && 'Nothing was done: --yes does it.',
  ]
  const state = states.find(Boolean) || 'It has ended. These have to be fetched anew.'
  return { value: { ...value, dryRun }, text: `${await describe(value, dryRun)}\n${state}\n` }
})

const COLUMNS: TableColumns<IncidentAnswer['certificates'][number]> = {
  NAME: ({ domain }) => domain,
  ISSUER: ({ issuer }) => issuer,
  REASON: ({ reason }) => reason,
  'LAST FETCH': ({ fetchedAt }) => fetchedAt,
  CLIENT: ({ client }) => client,
  FROM: ({ address }) => address,
}

async function describe(answer: IncidentAnswer, dryRun: boolean): Promise<string> {
  const { key, before, accepted, accounts, revoked, issuing } = answer
  const { certificates, notRevoked = [], unconfirmed = [] } = answer
  const verb = dryRun ? 'would be ' : ''
  const rows = certificates.slice(0, MAX_ROWS)
  const left = notRevoked.map(({ serialNumber, detail }) => `${serialNumber}: ${detail}`)
  return [
    labelled({
      key,
      // Whoever has the value that leaked gets certificates again.
      accepted: accepted.map((digest) => `SHA-256 ${digest}`).join(', ') || 'no value of it',
      'ACME accounts': `${accounts} ${verb}ended`,
      certificates: `${revoked} ${verb}revoked`,
      'made before': before,
      'being issued': firstOf(issuing, MAX_SHOWN),
      'valid still': firstOf(left, MAX_SHOWN),
      'not confirmed by': firstOf(unconfirmed, MAX_SHOWN),
    }),
    ...(rows.length > 0 ? ['\n', ...(await Array.fromAsync(listing(rows, COLUMNS, {})))] : []),
    revoked > rows.length ? `and ${revoked - rows.length} more: see --json\n` : '',
  ].join('')
}
