import { resolve } from 'node:path'
import { getCACertificates } from 'node:tls'
import { createFetch } from '@gatehouse/net'
import { UsageError } from '@gatehouse/service-kit/program'
import { checkAcme, shakeHands } from '../acme/check.ts'
import { clientClock } from '../clock.ts'
import { readSecret } from '../credentials.ts'
import { pemOf, readRoots } from '../roots.ts'
import { readNames, readUrl, type Texts } from '../settings.ts'

const HMAC_KEY = /^[\w-]{16,1024}$/

interface CheckOptions extends Texts<'ca' | 'kid' | 'hmacFile'> {
  readonly name?: readonly string[] | undefined
  readonly json?: boolean | undefined
}

/** Prints what a client of ACME would meet; with a fault, the exit code is 1. @throws UsageError, ClientError */
export async function acmeCheck(
  text: string,
  { ca, kid, hmacFile, name = [], json }: CheckOptions,
  process: Pick<NodeJS.Process, 'exitCode'>,
): Promise<string> {
  if ((kid === undefined) !== (hmacFile === undefined))
    throw new UsageError('--kid and --hmac-file need each other')
  const hmacKey = hmacFile === undefined ? '' : readSecret({ file: hmacFile }, HMAC_KEY)
  const externalAccount = kid === undefined ? undefined : { kid, hmacKey }
  const url = readUrl('URL', text)
  const roots = ca === undefined ? undefined : pemOf(readRoots(ca))
  const fetch = createFetch({ ca: roots ?? getCACertificates('system').join('\n') })
  await using opened = new AsyncDisposableStack()
  opened.defer(() => fetch.close())
  const handshake = (to: URL, trust: string) => shakeHands(to, trust === 'file' ? roots : undefined)
  const context = { fetch, clock: clientClock, handshake }
  const check = { url, caFile: ca && resolve(ca), externalAccount, names: readNames(name) }
  const findings = await Array.fromAsync(checkAcme({ ...check, ...context }))
  const countOf = (level: string) => findings.filter((finding) => finding.level === level).length
  const [faults, warnings] = [countOf('fault'), countOf('warning')]
  if (faults > 0) process.exitCode = 1
  if (json) return `${JSON.stringify({ url, faults, warnings, findings })}\n`
  const lines = findings.flatMap(({ level, text, advice }) => [
    `${level.padEnd(7)}  ${text}\n`,
    ...(advice === undefined ? [] : [`${' '.repeat(9)}${advice}\n`]),
  ])
  return `${lines.join('')}${url.href}: faults ${faults}, warnings ${warnings}\n`
}
