import { X509Certificate } from 'node:crypto'
import type { CertEvent } from '@gatehouse/issuance'
import type { Probe, ProbeTarget } from '@gatehouse/tls-probe'
import type { Test } from 'tap'
import { type Running, settle, start } from './app.ts'

const MINUTE = 60_000
const PAUSE = 20_000

/** The certificates of a chain in PEM. */
export function readChain(pem: string): Buffer[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  return blocks.map((block) => new X509Certificate(block).raw)
}

/** What a server has: certificates, one chain for each kind of key, or nothing. */
export type Served = readonly Buffer[] | Partial<Record<'rsa' | 'ec', readonly Buffer[]>>

/** A service that looks at servers which are only said to be there, unless `reach` reaches them. */
export async function startProbing(
  t: Test,
  changes: object = {},
  reach?: (target: ProbeTarget) => Promise<Probe>,
) {
  /** By `address:port`. */
  const servers = new Map<string, Served>()
  /** By host. */
  const dns = new Map<string, readonly string[]>()
  const looks: ProbeTarget[] = []
  const events: CertEvent[] = []
  const look = async (target: ProbeTarget): Promise<Probe> => {
    looks.push(target)
    if (reach) return reach(target)
    const served = servers.get(`${target.address}:${target.port}`)
    const kinds = served && 'length' in served ? undefined : served
    const chosen = kinds ? kinds[target.keyType ?? (kinds.ec ? 'ec' : 'rsa')] : served
    if (chosen && 'length' in chosen) return { certificates: chosen }
    return { failure: 'unreachable', message: 'cannot be reached' }
  }
  const running = await start(
    t,
    { probe: { networks: ['10.0.0.0/8', 'fd00::/8'] }, ...changes },
    {
      look,
      lookup: async (name) => dns.get(name) ?? [],
      events: { emit: (event) => void events.push(event) },
    },
  )
  /** Lets time pass, and all looks that are due then end. */
  const pass = async (ms = 75 * MINUTE): Promise<void> => {
    await running.clock.advance(ms)
    await rest(running)
  }
  const states = async (...names: readonly string[]) =>
    (await running.service.store.listProbes(names)).map(({ state }) => state)
  /** Gets a certificate, and gives its chain. */
  const issue = async (domain: string, more: object = {}) => {
    const { status, body } = await running.call('POST', '/api/certificate', { domain, ...more })
    if (status !== 200) throw new Error(`${status} ${body?.detail}`)
    return readChain(body.certificate)
  }
  return { ...running, servers, dns, looks, events, pass, states, issue }
}

/** Waits until the prober rests. Each turn of a connection takes 200 ms. */
async function rest({ clock }: Running): Promise<void> {
  for (await settle(); clock.waiting(PAUSE) === 0; await settle()) await clock.advance(200)
}
