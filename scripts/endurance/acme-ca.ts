// Pebble, and the name server that sends it to the balancer for every name.
import { X509Certificate } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFetch } from '@gatehouse/net'
import type { TestCa } from '../test/certificates.ts'
import { until } from './commands.ts'
import type { Network } from './network.ts'
import { Program } from './program.ts'

const ISSUED = /Issued certificate serial ([0-9a-f]+) for order (\S+)/
/** Percent of good nonces that are refused. */
const NONCE_REJECT = '5'
/** Where Pebble looks for http-01, at the balancer. */
export const HTTP_01_PORT = 5002

/** A certificate that the CA says it has issued. */
export interface CaCertificate {
  /** Hexadecimal, without leading zeros. */
  readonly serial: string
  readonly name: string
  /** By the clock of the harness, ms. */
  readonly at: number
}

export interface AcmeCa {
  readonly directory: string
  /** How many orders were finalized so far. */
  count(): number
  /** Every certificate of the run, in the order of issuance. */
  issued(): Promise<readonly CaCertificate[]>
  stop(): Promise<void>
}

interface CaOptions {
  readonly network: Network
  readonly folder: string
  readonly serverCa: TestCa
  /** Address of the balancer: every name is there. */
  readonly target: string
  readonly validitySeconds: number
}

export async function startAcmeCa(options: CaOptions): Promise<AcmeCa> {
  const { network, folder, serverCa, target, validitySeconds } = options
  const host = await network.add('ca')
  const { address } = host
  const own = join(folder, host.name)
  mkdirSync(own)
  const { cert, key } = serverCa.certificateFor(address)
  const files = { cert: join(own, 'cert.pem'), key: join(own, 'key.pem') }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
  const pebble = {
    ...{ listenAddress: `${address}:14000`, managementListenAddress: `${address}:15000` },
    ...{ certificate: files.cert, privateKey: files.key },
    ...{ httpPort: HTTP_01_PORT, tlsPort: 5001, certificateValidityPeriod: validitySeconds },
  }
  const config = join(own, 'pebble.json')
  writeFileSync(config, JSON.stringify({ pebble }))

  const found: { serial: string; at: number }[] = []
  const dns = new Program({ host, logFile: join(folder, 'dns.log'), command: nameServer(target) })
  const ca = new Program({
    host,
    logFile: join(folder, 'pebble.log'),
    env: { PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: NONCE_REJECT },
    command: ['pebble', '-strict', '-config', config, '-dnsserver', '127.0.0.1:8053'],
    onLine(line) {
      const [, serial] = ISSUED.exec(line) ?? []
      if (serial !== undefined) found.push({ serial: plainSerial(serial), at: performance.now() })
    },
  })
  dns.start()
  ca.start()

  const directory = `https://${address}:14000/dir`
  const fetch = createFetch({ ca: serverCa.root })
  const headers = { 'user-agent': 'endurance' }
  await until('Pebble', async () => (await fetch(new URL(directory), { headers })) && true)
  const nameOf = async (serial: string) => {
    const url = new URL(`https://${address}:15000/cert-status-by-serial/${serial}`)
    const { Certificate: pem } = JSON.parse((await fetch(url, { headers })).body.toString())
    return /DNS:([^,]+)/.exec(new X509Certificate(pem).subjectAltName ?? '')?.[1] ?? ''
  }
  return {
    directory,
    count: () => found.length,
    async issued() {
      const list: CaCertificate[] = []
      for (const one of found) list.push({ ...one, name: await nameOf(one.serial) })
      return list
    },
    async stop() {
      await fetch.close()
      await Promise.all([dns.end(), ca.end()])
    },
  }
}

const nameServer = (target: string): readonly string[] => [
  ...['pebble-challtestsrv', '-dns01', '127.0.0.1:8053', '-management', '127.0.0.1:8055'],
  ...['-http01', '', '-https01', '', '-tlsalpn01', ''],
  ...['-defaultIPv4', target, '-defaultIPv6', ''],
]

/** A serial number as everybody writes it: lower case, no leading zeros. */
export const plainSerial = (hex: string): string => hex.toLowerCase().replace(/^0+(?=.)/, '')
