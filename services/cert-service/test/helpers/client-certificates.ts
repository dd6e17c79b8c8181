import { generateKeyPairSync } from 'node:crypto'
import { Agent, request } from 'node:https'
import type { TLSSocket } from 'node:tls'
import {
  type Authority,
  buildChainPem,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  type KeyPair,
  parseClientName,
  toPem,
} from '@gatehouse/pki'
import type { Service } from './app.ts'

const DAY = 86_400_000

/** A certificate as TLS clients use it. */
export interface ClientPair {
  readonly der: Buffer
  readonly cert: string
  readonly key: string
}

function pairOf(key: KeyPair, der: Uint8Array, chain: readonly Uint8Array[] = []): ClientPair {
  const cert = buildChainPem(der, chain)
  return { der: Buffer.from(der), cert, key: toPem('PRIVATE KEY', key.pkcs8) }
}

/** Issues a client certificate and puts it into the inventory, unless that is not to know it. */
export async function issueClient(
  { ca, store, clock }: Pick<Service, 'ca' | 'store' | 'clock'>,
  names: readonly string[],
  { isKnown = true, withChain = false } = {},
): Promise<ClientPair & { readonly id: number }> {
  const key = generateP256()
  const request = { names: names.map(parseClientName), keyType: 'p256' as const, spki: key.spki }
  const issued = await ca.clients.issue(request)
  const stored = { ...issued, requestKey: issued.serialNumber, issuer: 'ca-client', names }
  const rest = { keyType: 'p256', sealedKey: null, csr: null, renewAt: null } as const
  const at = clock.now()
  const entry = { at, action: 'issue' as const, actor: 'system', names }
  const { id } = isKnown
    ? await store.addCertificate({ ...stored, ...rest, fetchedAt: at }, entry)
    : { id: 0 }
  return { ...pairOf(key, issued.certificate, withChain ? issued.chain : []), id }
}

/** A CA of somebody else: an intermediate for clients. */
export async function foreignCa(now: number): Promise<Authority> {
  const root = await createRoot({ commonName: 'Their Root', now })
  return createIntermediate({ root, commonName: 'Their Clients', now, purpose: 'clientAuth' })
}

export function signBy(authority: Authority, names: readonly string[], now: number): ClientPair {
  const key = generateP256()
  const der = createLeafSigner(authority, { purpose: 'clientAuth' }).sign({
    spki: key.spki,
    keyType: 'p256',
    names: names.map(parseClientName),
    serial: createSerial(now),
    notBefore: now - 60_000,
    notAfter: now + DAY,
  })
  return pairOf(key, der)
}

/** A key without any CA, for a certificate that signs itself. */
export async function selfSigned(now: number): Promise<ClientPair> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const root = await createRoot({ commonName: 'agent.test', now })
  const pkcs8 = (root.key ?? privateKey).export({ type: 'pkcs8', format: 'der' })
  return {
    der: root.certificate,
    cert: toPem('CERTIFICATE', root.certificate),
    key: toPem('PRIVATE KEY', pkcs8),
  }
}

interface Answered {
  readonly status: number
  readonly body: string
  readonly challenge: string | readonly string[] | undefined
  readonly isResumed: boolean
}

type Tls = Partial<Pick<ClientPair, 'cert' | 'key'>> & {
  readonly maxVersion?: 'TLSv1.2'
  readonly servername?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly agent?: Agent
}

/** Asks over TLS, on a connection of its own. */
export function askOverTls(port: number, path: string, options: Tls = {}): Promise<Answered> {
  const { method = 'GET', ...tls } = options
  return new Promise((resolve, reject) => {
    const agent = options.agent ?? new Agent({ keepAlive: false, maxCachedSessions: 0 })
    const to = { host: '127.0.0.1', port, path, method, rejectUnauthorized: false, ...tls, agent }
    const asked = request(to, (response) => {
      const isResumed = (response.socket as TLSSocket).isSessionReused()
      const { statusCode: status = 0 } = response
      const challenge = response.headers['www-authenticate']
      let body = ''
      response.setEncoding('utf8').on('data', (part) => (body += part))
      response.on('end', () => resolve({ status, body, challenge, isResumed }))
    })
    asked.on('error', reject)
    asked.end()
  })
}
