import { X509Certificate } from 'node:crypto'
import { ADDRCONFIG } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { type Clock, sleep, toTime } from '@gatehouse/net'
import {
  type Probe,
  type ProbePort,
  type ProbeTarget,
  probe,
  serverNameFor,
} from '@gatehouse/tls-probe'
import { fingerprintOf, type Placed } from './certificate.ts'
import { ClientError } from './errors.ts'
import type { CertService } from './service.ts'

const MAX_ADDRESSES = 8
const THIS_MACHINE = [{ address: '127.0.0.1' }, { address: '::1' }]
/** What to do about a name that this machine cannot look up. */
const NAMELESS = {
  action:
    'Check the name, and what the DNS server and the hosts file of this machine say of it. Or look from a machine that ' +
    'knows it; `get --probe` also takes an address.',
}
const SECOND = 1_000
/** Until a server that was told to reload serves the new files. */
const PATIENCE = 60 * SECOND
const LONGEST_WAIT = 10 * SECOND

/** A port of a host, or of this machine if the host is empty. */
export interface ProbeHost extends ProbePort {
  readonly host: string
}

interface ServedContext {
  readonly ports: readonly ProbeHost[]
  /** Undefined while it cannot be reached. */
  readonly service: Pick<CertService, 'reportProbe'> | undefined
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
  readonly signal: AbortSignal
}

/**
 * Waits a minute at most until each port serves a certificate, and tells the service what they serve.
 * @param domain - the first name of the certificate
 * @throws ClientError CERT_CLIENT_NOT_SERVED; the reason of the signal
 */
export async function requireServed(
  placed: Placed,
  domain: string,
  { ports, service, clock, log, signal }: ServedContext,
): Promise<void> {
  const end = clock.now() + PATIENCE
  for (let wait = SECOND; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
    const looks = await Promise.all(ports.map((port) => lookAt(port, placed, domain, signal)))
    const faults = looks.flatMap(({ fault = [] }) => fault)
    if (faults.length > 0 && clock.now() + wait <= end) {
      await sleep(clock, wait, signal)
      continue
    }
    for (const { port, sha256 } of looks)
      if (sha256 !== undefined)
        await service?.reportProbe({ domain, ...port, sha256 }).catch(({ code, message }) => {
          log.warn({ code, detail: message }, 'the service was not told what is served')
        })
    if (faults.length === 0) return
    throw new ClientError('CERT_CLIENT_NOT_SERVED', faults.join('; '))
  }
}

/** Finds what a port serves in place of a certificate, if anything. */
async function lookAt(
  { host, ...port }: ProbeHost,
  placed: Placed,
  domain: string,
  signal: AbortSignal,
): Promise<{ readonly port: ProbePort; readonly sha256?: string; readonly fault?: string }> {
  const serverName = serverNameFor(domain)
  const keyType = placed.keyType.startsWith('rsa') ? 'rsa' : 'ec'
  const served = await probeHost({ host, ...port }, { serverName, keyType }, signal)
  const leaves = served.flatMap(({ chain }) => chain.slice(0, 1))
  const other = leaves.find((leaf) => fingerprintOf(leaf) !== placed.fingerprint256)
  const leaf = other ?? leaves[0]
  if (!leaf) return { port, fault: served.map(({ message }) => message).join(', ') }
  const fault =
    `${host}:${port.port} serves another certificate than the one in place, with serial number ` +
    `${leaf.serialNumber.toLowerCase()}, which is valid since ${toTime(leaf.validFromDate.getTime())}`
  return { port, sha256: fingerprintOf(leaf), ...(other && { fault }) }
}

/** What is served at an address: a chain, or none because of what the message says. */
interface Served {
  readonly address: string
  readonly chain: readonly X509Certificate[]
  readonly message: string
}

/** Looks at all addresses of a host. @throws ClientError CERT_CLIENT_NOT_SERVED */
export async function probeHost(
  { host, ...port }: ProbeHost,
  { serverName, keyType }: Pick<ProbeTarget, 'serverName' | 'keyType'>,
  signal?: AbortSignal,
): Promise<readonly Served[]> {
  const resolve = () => lookup(host, { all: true, hints: ADDRCONFIG })
  const found =
    host === ''
      ? THIS_MACHINE
      : await resolve().catch(({ code }) => {
          const why = code === 'EAI_AGAIN' ? 'cannot be looked up now' : 'has no address here'
          throw new ClientError('CERT_CLIENT_NOT_SERVED', `${host} ${why} (${code})`, NAMELESS)
        })
  return Promise.all(
    found.slice(0, MAX_ADDRESSES).map(async ({ address }) => {
      const target = { ...port, address, serverName }
      let result: Probe = await probe({ ...target, keyType }, { signal })
      // It may have none of this kind.
      if ('failure' in result && keyType && result.failure === 'refused')
        result = await probe(target, { signal })
      if ('failure' in result) return { address, chain: [], message: result.message }
      return {
        address,
        chain: result.certificates.map((der) => new X509Certificate(der)),
        message: '',
      }
    }),
  )
}
