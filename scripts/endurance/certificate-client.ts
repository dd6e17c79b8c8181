// A client of cert-service: asks, tries again as it is told to, and notes each answer.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { plainSerial } from './acme-ca.ts'
import { type Answer, type Ask, isPassing, send, type Target, waitAfter } from './client.ts'
import { readCrl } from './crl.ts'
import type { CertificateEntry, Journal, Told, WithdrawalEntry } from './journal.ts'
import type { Random } from './random.ts'
import { API_KEY } from './replicas.ts'

const TRIES = 6
const HEADERS = { authorization: `APIKey ${API_KEY}`, 'content-type': 'application/json' }

interface CertificateBody {
  readonly certificate: string
  readonly privateKey?: string
  readonly serialNumber: string
  readonly fingerprint256: string
  readonly issuer: string
  readonly notAfter: string
  readonly renewAt?: string
  readonly cached: boolean
}

export class CertificateClient {
  readonly #journal: Journal
  readonly #random: Random
  readonly #targets: readonly Target[]
  /** Key identifiers of all whose lists were seen. */
  readonly #listed = new Set<string>()

  /** `targets` are what a request may be sent to. */
  constructor(journal: Journal, random: Random, targets: readonly Target[]) {
    this.#journal = journal
    this.#random = random
    this.#targets = targets
  }

  /** POST /api/certificate, until there is one or it makes no sense to go on. */
  issue = (name: string, first?: Target) => this.#obtain('issue', name, first)

  renew = (name: string, first?: Target) => this.#obtain('renew', name, first)

  /** GET /api/certificate/:domain, once. */
  async read(name: string, target: Target = this.#any()): Promise<CertificateEntry> {
    const answer = await send(target, { path: `/api/certificate/${name}`, headers: HEADERS })
    return this.#noteCertificate('read', name, answer)
  }

  async revoke(name: string): Promise<WithdrawalEntry> {
    const body = JSON.stringify({ domain: name })
    const ask = { method: 'POST', path: '/api/certificate/revoke', headers: HEADERS, body } as const
    return this.#withdraw('revoke', name, ask)
  }

  async delete(name: string): Promise<WithdrawalEntry> {
    const path = `/api/certificate/${name}`
    return this.#withdraw('delete', name, { method: 'DELETE', path, headers: HEADERS })
  }

  /** GET /ca/crl.der, once: the list of what signs now, or of another one that was seen. */
  async list(target: Target = this.#any()): Promise<void> {
    const queries = [...this.#listed].map((issuer) => `?issuer=${issuer}`)
    const path = `/ca/crl.der${this.#random.pick(['', ...queries])}`
    const { body, headers: _, ...exchange } = await send(target, { path })
    const list = exchange.status === 200 ? readCrl(body) : undefined
    if (list) this.#listed.add(list.issuer)
    this.#journal.add({ kind: 'crl', ...exchange, list })
  }

  #any = (): Target => this.#random.pick(this.#targets)

  async #obtain(kind: 'issue' | 'renew', name: string, first?: Target): Promise<CertificateEntry> {
    const path = kind === 'issue' ? '/api/certificate' : '/api/certificate/renew'
    const ask = {
      method: 'POST',
      path,
      headers: HEADERS,
      body: JSON.stringify({ domain: name }),
    } as const
    for (let n = 1; ; n++) {
      const target = n === 1 && first ? first : this.#any()
      const answer = await send(target, ask)
      const entry = this.#noteCertificate(kind, name, answer)
      const isPending = answer.status === 202
      if (n === TRIES || (!isPending && !isPassing(answer.status))) return entry
      if (isPending) await this.#follow(answer)
      else await waitAfter(answer, this.#random)
    }
  }

  /** Looks after an order once, as the answer asks to. */
  async #follow(answer: Answer): Promise<void> {
    await waitAfter(answer, this.#random)
    const path = answer.headers.location ?? '/'
    const {
      body: _,
      headers: __,
      ...exchange
    } = await send(this.#any(), { path, headers: HEADERS })
    this.#journal.add({ kind: 'order', ...exchange })
  }

  async #withdraw(kind: 'revoke' | 'delete', name: string, ask: Ask): Promise<WithdrawalEntry> {
    for (let n = 1; ; n++) {
      const { body, ...answer } = await send(this.#any(), ask)
      const { headers: _, ...exchange } = answer
      // A deletion has no body unless it has something to say.
      const said = answer.status === 200 ? JSON.parse(body.toString()) : {}
      const { serialNumbers = [], unconfirmed = [] } = said
      const serials = serialNumbers.map(plainSerial)
      const entry = { kind, name, ...exchange, serials, unconfirmed }
      this.#journal.add(entry)
      if (n === TRIES || !isPassing(answer.status)) return entry
      await waitAfter({ body, ...answer }, this.#random)
    }
  }

  #noteCertificate(
    kind: CertificateEntry['kind'],
    name: string,
    { body, headers: _, ...exchange }: Answer,
  ): CertificateEntry {
    const told = exchange.status === 200 ? describe(JSON.parse(body.toString())) : undefined
    const entry = { kind, name, ...exchange, told }
    this.#journal.add(entry)
    return entry
  }
}

function rootOf(chain: string): string | undefined {
  const [, intermediate] = chain.split(/(?<=-----END CERTIFICATE-----\n)/)
  return intermediate && new X509Certificate(intermediate).issuer
}

function describe(body: CertificateBody): Told {
  const { certificate, privateKey, serialNumber, notAfter, renewAt, issuer, cached } = body
  const leaf = new X509Certificate(certificate)
  return {
    ...{ issuer, cached, serial: plainSerial(serialNumber) },
    fingerprint: leaf.fingerprint256.replaceAll(':', '').toLowerCase(),
    notAfter: Date.parse(notAfter),
    renewAt: renewAt === undefined ? undefined : Date.parse(renewAt),
    root: rootOf(certificate),
    hasItsKey: privateKey !== undefined && leaf.checkPrivateKey(createPrivateKey(privateKey)),
  }
}
