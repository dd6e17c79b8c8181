import { hash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import type { Keyring } from '@gatehouse/cert-store'
import type { CertificateRecord, ReplicaChange, Store } from '@gatehouse/cert-store/port'
import { type Clock, orLate } from '@gatehouse/net'
import { toPem } from '@gatehouse/pki'
import { isUnavailable } from '@gatehouse/store'
import { LRUCache } from 'lru-cache'
import { beginOf, describeRenewal } from './times.ts'

/** About 7 kB each, so 70 MB. */
const MAX_CACHED = 10_000
/** Certificates that are compared with the store before other work gets a turn. */
const PAGE = 100

export class Certificate {
  readonly record: CertificateRecord
  /** Lower-case hexadecimal SHA-256 of the certificate. */
  readonly fingerprint256: string
  readonly chain: string
  /** PKCS#8 in PEM; empty if the caller holds the key. */
  readonly privateKey: string
  readonly pem: string
  readonly #usual: string
  readonly #begins: number
  #bare: Certificate | undefined

  constructor(record: CertificateRecord, key: Uint8Array | undefined) {
    this.record = record
    this.#begins = beginOf(record)
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

  /** Tells whether it is valid at a time, give or take what clocks may differ by. */
  isValid(now: number): boolean {
    return this.#begins <= now && now < this.record.notAfter
  }

  /** The same certificate for a caller who does not get its private key. */
  withoutKey(): Certificate {
    if (this.privateKey === '') return this
    this.#bare ??= new Certificate(this.record, undefined)
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
  const pem = pemOf.get(der) ?? toPem('CERTIFICATE', der)
  pemOf.set(der, pem)
  return pem
}

export interface HoldingsDeps {
  readonly clock: Clock
  readonly keyring: Pick<Keyring, 'openAny'>
  readonly store: Pick<Store, 'findByDomain' | 'findCurrent' | 'isShared' | 'onChange'>
}

/** The certificates that are held; those answered lately are cached with their answers. */
export class Holdings {
  readonly #deps: HoldingsDeps
  readonly #cached = new LRUCache<string, Certificate>({ max: MAX_CACHED })
  /** Cached certificates that may be out of date: answered only while the store is away. */
  readonly #doubted = new WeakSet<Certificate>()
  /** The certificates in the store at that count of changes, by first name. */
  readonly #listed = new LRUCache<
    string,
    { readonly changes: number; readonly records: readonly CertificateRecord[] }
  >({ maxSize: MAX_CACHED, sizeCalculation: ({ records }) => 1 + records.length })
  /** Keeps a slow read from bringing back what was changed meanwhile. */
  #changes = 0
  /** Emits the request key of each change. */
  readonly #emitter = new EventEmitter().setMaxListeners(0)

  constructor(deps: HoldingsDeps) {
    this.#deps = deps
    deps.store.onChange(({ requestKeys, isUrgent }) =>
      isUrgent && requestKeys !== 'all' ? this.forget(requestKeys) : this.#compareAll(requestKeys),
    )
  }

  /** The certificate of a request key if it is cached and valid now. */
  peek(requestKey: string): Certificate | undefined {
    const certificate = this.#cached.get(requestKey)
    if (!certificate || this.#doubted.has(certificate)) return undefined
    return certificate.isValid(this.#deps.clock.now()) ? certificate : undefined
  }

  /** The certificate of a request key unless it has expired; its validity may begin in the future. */
  async find(requestKey: string): Promise<Certificate | undefined> {
    const changes = this.#changes
    const certificate = await this.#deps.store.findCurrent(requestKey).then(
      (record) => record && this.of(record, changes),
      (error) => {
        const remembered = this.#isAway(error) ? this.#cached.get(requestKey) : undefined
        if (!remembered) throw error
        return remembered
      },
    )
    return certificate && certificate.record.notAfter > this.#deps.clock.now()
      ? certificate
      : undefined
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

  /** Cached certificates with one of these names, the best first, if the error is that a shared store is away. */
  remembered(names: readonly string[], error: unknown): readonly CertificateRecord[] {
    if (!this.#isAway(error)) return []
    return [...this.#cached.values()]
      .map(({ record }) => record)
      .filter((record) => names.some((name) => record.names.includes(name)))
      .sort((a, b) => rankFor(names, a) - rankFor(names, b) || b.id - a.id)
  }

  /** Resolves at the next change of a request key, or after so many milliseconds. */
  async nextChange(requestKey: string, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#emitter.once(requestKey, resolve)
    await orLate(promise, this.#deps.clock, ms)
    this.#emitter.off(requestKey, resolve)
  }

  /** The answers of a certificate. They are cached if it was read from the store at this count of changes. */
  async of(record: CertificateRecord, changes?: number): Promise<Certificate> {
    const certificate = await this.#open(record)
    if (changes === this.#changes) this.#keep(certificate)
    else if (changes !== undefined) void this.#keepLater(record.requestKey)
    return certificate
  }

  /** Caches what the store now holds for a request key; `key` is its PKCS#8. */
  put(record: CertificateRecord, key?: Uint8Array): Certificate {
    const certificate = new Certificate(record, key)
    this.#changes += 1
    this.#keep(certificate)
    return certificate
  }

  /** Forgets these request keys. Call it after each change that takes their certificates out of service. */
  forget(requestKeys: readonly string[]): void {
    if (requestKeys.length > 0) this.#changes += 1
    for (const requestKey of requestKeys) {
      this.#cached.delete(requestKey)
      this.#emitter.emit(requestKey)
    }
  }

  /** Grows with each change: what was read at an equal count is still up to date. */
  changes(): number {
    return this.#changes
  }

  /** Compares with the store what is cached of these request keys, as it may have changed. */
  async #compareAll(requestKeys: ReplicaChange['requestKeys']): Promise<void> {
    this.#changes += 1
    const changed = requestKeys === 'all' ? [...this.#cached.keys()].reverse() : requestKeys
    const doubted = changed.flatMap((requestKey) => this.#cached.peek(requestKey) ?? [])
    for (const certificate of doubted) this.#doubted.add(certificate)
    for (const requestKey of requestKeys === 'all' ? this.#emitter.eventNames() : requestKeys)
      this.#emitter.emit(requestKey)
    const compare = (certificate: Certificate) => this.#compare(certificate)
    for (let start = 0; start < doubted.length; start += PAGE)
      await Promise.all(doubted.slice(start, start + PAGE).map(compare))
  }

  async #compare(certificate: Certificate): Promise<void> {
    const { requestKey } = certificate.record
    const current = await this.#readAgain(requestKey)
    // This replica has changed the certificate meanwhile.
    if (this.#cached.peek(requestKey) !== certificate) return
    if (current) this.#keep(current)
    else this.forget([requestKey])
  }

  /** Reads once more what may have changed while it was read. */
  async #keepLater(requestKey: string): Promise<void> {
    const changes = this.#changes
    const certificate = await this.#readAgain(requestKey).catch(() => undefined)
    if (certificate && changes === this.#changes) this.#keep(certificate)
  }

  /** Forgets a certificate that cannot be read although the store can: others must not wait for it. */
  async #readAgain(requestKey: string): Promise<Certificate | undefined> {
    try {
      const record = await this.#deps.store.findCurrent(requestKey)
      return record && (await this.#open(record))
    } catch (error) {
      if (this.#isAway(error)) throw error
      return undefined
    }
  }

  /** Whether an error says that a shared store cannot be reached. */
  #isAway(error: unknown): boolean {
    return isUnavailable(error) && this.#deps.store.isShared
  }

  #keep(certificate: Certificate): void {
    this.#doubted.delete(certificate)
    this.#cached.set(certificate.record.requestKey, certificate)
  }

  async #open(record: CertificateRecord): Promise<Certificate> {
    const { sealedKey, certificate, requestKey } = record
    const cached = this.#cached.peek(requestKey)
    if (cached && hasSameAnswer(cached.record, record)) return cached
    const key = sealedKey ? await this.#deps.keyring.openAny(sealedKey, certificate) : undefined
    return new Certificate(record, key)
  }
}

function hasSameAnswer(a: CertificateRecord, b: CertificateRecord): boolean {
  return a.id === b.id && isDeepStrictEqual(describeRenewal(a), describeRenewal(b))
}

/** Ranks certificates for a request: by the name, then those whose first name it is, then those with a stored key. */
function rankFor(requested: readonly string[], { names, sealedKey }: CertificateRecord): number {
  const position = requested.findIndex((name) => names.includes(name))
  return 4 * position + (names[0] === requested[position] ? 0 : 2) + (sealedKey ? 0 : 1)
}
