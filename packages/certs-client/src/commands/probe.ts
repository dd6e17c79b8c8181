import { X509Certificate } from 'node:crypto'
import { getCACertificates } from 'node:tls'
import { isIp, toTime } from '@gatehouse/net'
import { escaped, labelled, UsageError } from '@gatehouse/service-kit/program'
import { rootOf } from '@gatehouse/tls-probe'
import { fingerprintOf } from '../certificate.ts'
import { clientClock } from '../clock.ts'
import { readRoots } from '../roots.ts'
import { probeHost } from '../served.ts'
import { hasCredentials, kebab, readProbe } from '../settings.ts'
import { type CommandOptions, type Io, open } from './ask.ts'

/** Prints what is served under a name; with a problem, the exit code is 1. @throws UsageError, ClientError */
export async function probeName(
  text: string,
  options: CommandOptions & { readonly protocol?: string },
  io: Io,
  process: Pick<NodeJS.Process, 'exitCode'>,
): Promise<string> {
  const { protocol = '', ca = io.env.GATEHOUSE_CA } = options
  const port = readProbe(`${text}${/:\d+$/.test(text) ? '' : ':443'} ${protocol}`.trim())
  const { host } = port
  if (host === '') throw new UsageError('name the server: NAME or NAME:PORT')
  const system = getCACertificates('system').map((pem) => new X509Certificate(pem))
  const roots = [...system, ...(ca ? readRoots(ca) : [])]
  await using service = hasCredentials(options, io.env) ? open(options, io) : undefined
  const warn = ({ message }: Error) => {
    io.stderr.write(escaped(`warning: the service does not tell the newest: ${message}\n`))
    return undefined
  }
  const looks = await probeHost(port, { serverName: host })
  const servers = await Promise.all(
    looks.map(async ({ address, chain, message }) => {
      const [leaf, ...issuers] = chain
      if (!leaf) return { address, problems: [message] }
      const isNewest = await service?.isNewest(host, fingerprintOf(leaf)).catch(warn)
      return { address, ...describe([leaf, ...issuers], roots, host, isNewest) }
    }),
  )
  if (servers.some(({ problems }) => problems.length > 0)) process.exitCode = 1
  if (options.json) return servers.map((server) => `${JSON.stringify(server)}\n`).join('')
  const texts = servers.map(({ problems, ...fields }) => {
    const entries = Object.entries({ ...fields, problems: problems.join('; ') || 'none' })
    return labelled(
      Object.fromEntries(entries.map(([name, text]) => [kebab(name).replaceAll('-', ' '), text])),
    )
  })
  return texts.join('\n')
}

/** Says what a certificate is, and what is wrong with it. */
function describe(
  [leaf, ...issuers]: readonly [X509Certificate, ...X509Certificate[]],
  roots: readonly X509Certificate[],
  host: string,
  isNewest: boolean | undefined,
) {
  const { subjectAltName: names = leaf.subject, serialNumber, validFromDate, validToDate } = leaf
  const isFor = isIp(host) ? leaf.checkIP(host) : leaf.checkHost(host, { subject: 'never' })
  const now = clientClock.now()
  const lasts = ({ validToDate }: X509Certificate) => validToDate.getTime() > now
  const root = rootOf([leaf, ...issuers.filter(lasts)], roots.filter(lasts))
  const faults: readonly (readonly [isFault: boolean, text: string])[] = [
    [!isFor, `it is not for ${host}`],
    [!lasts(leaf), 'it has ended'],
    [validFromDate.getTime() > now, 'it is not valid yet'],
    [!root, 'it leads to no known root: the server lacks a valid intermediate, or --ca the root'],
    [isNewest === false, 'it is not the newest of the service: reload the server'],
  ]
  return {
    names,
    issuer: (leaf.issuer ?? '').replaceAll('\n', ', '),
    serialNumber: serialNumber.toLowerCase(),
    fingerprint256: fingerprintOf(leaf),
    notBefore: toTime(validFromDate.getTime()),
    notAfter: toTime(validToDate.getTime()),
    newest: isNewest === undefined ? 'unknown' : isNewest ? 'yes' : 'no',
    problems: faults.flatMap(([isFault, text]) => (isFault ? text : [])),
  }
}
