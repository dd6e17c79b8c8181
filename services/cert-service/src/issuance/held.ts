import { hash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { toPem } from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { hasCode } from '../errors.ts'
import type { CertificateRecord, Change } from '../store/store.ts'
import { describeRenewal, hasBegun } from '../times.ts'
import type { HandedOut } from './handed-out.ts'

/** About 7 kB each, so 70 MB. */
const MAX_CACHED = 10_000

export class Held {
  readonly record: CertificateRecord
  /** Lower-case hexadecimal SHA-256 of the certificate. */
  readonly fingerprint256: string
  readonly chain: string
  /** PKCS#8 in PEM; empty if the caller holds the key. */
  readonly privateKey: string
  readonly pem: string
  readonly #usual: string
  #bare: Held | undefined

  constructor(record: CertificateRecord, key: Uint8Array | undefined) {
    this.record = record
    this.privateKey = key ? toPem('PRIVATE KEY', key) : ''
    const described = describeCertificate(record)
    this.fingerprint256 = described.fingerprint256
    const issuers = record.chain.map(issuerPem)
    this.chain = [toPem('CERTIFICATE', record.certificate), ...issuers].join('')
    this.pem = this.chain + this.privateKey
    const members = JSON.stringify({
      ...described,
      certificate: this.chain,
      ...(key && { privateKey: this.privateKey }),
      issuerCert: issuers[0],
    }).slice(1, -1)
    this.#usual = headOf(record.names[0]) + members + CACHED
  }

  /** The same certificate for a caller who does not get its private key. */
  withoutKey(): Held {
    if (this.privateKey === '') return this
    this.#bare ??= new Held(this.record, undefined)
    return this.#bare
  }

  json(domain: string, cached: boolean, ignored: readonly string[] = []): string {
    const [first] = this.record.names
    if (cached && domain === first && ignored.length === 0) return this.#usual
    // Kept once: it is most of what a certificate takes of memory.
    const members = this.#usual.slice(headOf(first).length, -CACHED.length)
    const more = ignored.length > 0 ? `,"ignored":${JSON.stringify(ignored)}` : ''
    return `${headOf(domain)}${members}${more},"cached":${cached}}`
  }
}

const CACHED = ',"cached":true}'
const headOf = (domain = ''): string => `{"domain":"${domain}",`

export function describeCertificate(record: CertificateRecord) {
  const { names, issuer, serialNumber, certificate } = record
  return {
    names: [...names],
    issuer,
    serialNumber,
    fingerprint256: hash('sha256', certificate),
    ...describeRenewal(record),
  }
}

const pemOf = new WeakMap<Uint8Array, string>()

/** Issuers are shared by many certificates. */
function issuerPem(der: Uint8Array): string {
  let pem = pemOf.get(der)
  if (pem !== undefined) return pem
  pem = toPem('CERTIFICATE', der)
  pemOf.set(der, pem)
  return pem
}

interface HoldingsDeps extends Pick<FastifyInstance, 'clock' | 'keyring' | 'store'> {
  /** What was delivered, for when the store cannot be reached. */
  readonly handedOut?: HandedOut | undefined
}

/** The certificates that are held; those asked for lately are cached with their answers. */
export class Holdings {
  readonly #deps: HoldingsDeps
  readonly #cached = new LRUCache<string, Held>({ max: MAX_CACHED })
  /** By first name, what the store held at that count of changes. */
  readonly #listed = new LRUCache<
    string,
    { readonly changes: number; readonly records: readonly CertificateRecord[] }
  >({ maxSize: MAX_CACHED, sizeCalculation: ({ records }) => 1 + records.length })
  /** Keeps a slow read from bringing back what was changed meanwhile. */
  #changes = 0
  /** Emits the lineage of each change. */
  readonly #emitter = new EventEmitter().setMaxListeners(0)

  constructor(deps: HoldingsDeps) {
    this.#deps = deps
    deps.store.onChange(({ lineages }) => this.forget(lineages))
  }

  /** The certificate of a lineage if it is cached and valid now. */
  peek(lineage: string): Held | undefined {
    const held = this.#cached.get(lineage)
    const now = this.#deps.clock.now()
    return held && held.record.notAfter > now && hasBegun(held.record, now) ? held : undefined
  }

  /** The certificate of a lineage unless it has expired; its validity may begin in the future. */
  async find(lineage: string): Promise<Held | undefined> {
    const before = this.#changes
    const record = await this.#read(lineage)
    if (!record || record.notAfter <= this.#deps.clock.now()) return undefined
    const held = await this.#open(record)
    if (before === this.#changes) this.#cached.set(lineage, held)
    return held
  }

  /** The certificates whose first name is `domain`, if they are cached. */
  peekByDomain(domain: string): readonly CertificateRecord[] | undefined {
    const listed = this.#listed.get(domain)
    return listed?.changes === this.#changes ? listed.records : undefined
  }

  /** A page of the certificates whose first name is `domain`; the first page is cached until a change. */
  async findByDomain(domain: string, skip: number): Promise<readonly CertificateRecord[]> {
    const listed = skip === 0 ? this.peekByDomain(domain) : undefined
    if (listed) return listed
    const changes = this.#changes
    const records = await this.#deps.store.findByDomain(domain, skip)
    if (skip === 0) this.#listed.set(domain, { changes, records })
    return records
  }

  /** Certificates with this first name as they are remembered, if the error is that a shared store is away. */
  remembered(domain: string, error: unknown): readonly CertificateRecord[] {
    if (!this.#isAway(error)) return []
    const cached = [...this.#cached.values()].map(({ record }) => record)
    const known = cached.filter(({ names }) => names[0] === domain)
    const ids = new Set(known.map(({ id }) => id))
    const copies = this.#deps.handedOut?.findByDomain(domain) ?? []
    return [...known, ...copies.filter(({ id }) => !ids.has(id))]
  }

  /** To be called with each certificate that is delivered. */
  recordDelivery({ record }: Held): void {
    this.#deps.handedOut?.save(record)
  }

  /** Resolves at the next change of a lineage, or after so many milliseconds. */
  async nextChange(lineage: string, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#deps.clock.setTimer(resolve, ms)
    this.#emitter.once(lineage, resolve)
    await promise
    timer.cancel()
    this.#emitter.off(lineage, resolve)
  }

  /** The answers of a certificate that was just read from the store. */
  of(record: CertificateRecord): Held {
    const held = this.#cached.get(record.lineage)
    return held?.record.id === record.id ? held : new Held(record, this.#keyOf(record))
  }

  /** Caches what the store now holds for a lineage; `key` is its PKCS#8 if that is at hand. */
  put(record: CertificateRecord, key = this.#keyOf(record)): Held {
    const held = new Held(record, key)
    this.#changes += 1
    this.#cached.set(record.lineage, held)
    return held
  }

  /** To be called after each change that takes the certificates of these lineages out of service. */
  forget(lineages: Change['lineages']): void {
    if (lineages.length === 0) return
    this.#changes += 1
    this.#deps.handedOut?.forget(lineages)
    if (lineages === 'all') this.#cached.clear()
    else for (const lineage of lineages) this.#cached.delete(lineage)
    for (const lineage of lineages === 'all' ? this.#emitter.eventNames() : lineages)
      this.#emitter.emit(lineage)
  }

  /** Grows with each change: what was read at an equal count is still up to date. */
  changes(): number {
    return this.#changes
  }

  async #read(lineage: string): Promise<CertificateRecord | undefined> {
    try {
      return await this.#deps.store.findCurrent(lineage)
    } catch (error) {
      const copy = this.#isAway(error) ? this.#deps.handedOut?.find(lineage) : undefined
      if (copy) return copy
      throw error
    }
  }

  /** Whether an error says that a shared store cannot be reached. */
  #isAway(error: unknown): boolean {
    return hasCode(error, 'CERT_STORE_UNAVAILABLE') && this.#deps.store.isShared
  }

  async #open(record: CertificateRecord): Promise<Held> {
    const { sealedKey, certificate } = record
    const key = sealedKey ? await this.#deps.keyring.openAny(sealedKey, certificate) : undefined
    return new Held(record, key)
  }

  #keyOf({ sealedKey, certificate }: CertificateRecord): Uint8Array | undefined {
    return sealedKey ? this.#deps.keyring.open(sealedKey, certificate) : undefined
  }
}
