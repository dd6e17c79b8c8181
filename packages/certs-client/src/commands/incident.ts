import type { IncidentAnswer } from '../service.ts'
import { readBefore } from '../settings.ts'
import { ask, type CommandOptions, type Io, shortTime } from './certificates.ts'
import { firstOf, labelled, table } from './table.ts'

/** Serial numbers and names, and certificates, that people are shown. */
const MAX_SHOWN = 5
const MAX_ROWS = 50

/**
 * Says what an API key has got that has leaked, or with `yes` ends and revokes it. If some of it is left then, the exit
 * code is 1. @throws UsageError, ClientError
 */
export function incidentKey(key: string, options: CommandOptions, io: Io): Promise<string> {
  const dryRun = options.yes !== true
  const before = readBefore(options.before)
  return ask(options, io, async (service) => {
    const value = await service.withdrawLeaked({ key, before, dryRun })
    const { notRevoked = [], issuing, accounts, revoked } = value
    const isLeft = notRevoked.length + issuing.length > 0
    if (isLeft) io.fail?.()
    const states = [
      isLeft && `Some of it is left: run it again with --before ${value.before}.`,
      accounts + revoked === 0 && 'Nothing of it is left.',
      dryRun && 'Nothing was done: --yes does it.',
    ]
    const state = states.find(Boolean) || 'It has ended. These have to be fetched anew.'
    return { value: { ...value, dryRun }, text: `${describe(value, dryRun)}\n${state}\n` }
  })
}

function describe(answer: IncidentAnswer, dryRun: boolean): string {
  const { key, before, accepted, accounts, revoked, issuing } = answer
  const { certificates, notRevoked = [], unconfirmed = [] } = answer
  const verb = dryRun ? 'would be ' : ''
  const lists = {
    'being issued': issuing,
    'valid still': notRevoked.map(({ serialNumber, detail }) => `${serialNumber}: ${detail}`),
    'not confirmed by': unconfirmed,
  }
  const shown = Object.entries(lists).filter(([, texts]) => texts.length > 0)
  const rows = certificates.slice(0, MAX_ROWS).map((certificate) => {
    const { domain, issuer, reason, fetchedAt, client = '', address = '' } = certificate
    return [domain, issuer, reason, shortTime(fetchedAt), client, address]
  })
  const titles = ['NAME', 'ISSUER', 'REASON', 'LAST FETCH', 'CLIENT', 'FROM']
  return [
    labelled({
      key,
      // Whoever has the value that leaked gets certificates again.
      accepted: accepted.map((digest) => `SHA-256 ${digest}`).join(', ') || 'no value of it',
      'ACME accounts': `${accounts} ${verb}ended`,
      certificates: `${revoked} ${verb}revoked, made before ${before}`,
      ...Object.fromEntries(shown.map(([label, texts]) => [label, firstOf(texts, MAX_SHOWN)])),
    }),
    rows.length > 0 ? `\n${table(titles, rows)}` : '',
    revoked > rows.length ? `and ${revoked - rows.length} more: see --json\n` : '',
  ].join('')
}
