import { setImmediate } from 'node:timers/promises'
import type { Certificate } from '@gatehouse/issuance'
import type { Actor } from '@gatehouse/issuance/request'
import { HOUR, hasBegun } from '@gatehouse/issuance/times'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { CertError } from '../errors.ts'
import { isOf } from '../lookup/certificates.ts'
import { mayAll } from '../policy/authorize.ts'
import type { Program } from '../policy/rules.ts'

/** Certificates that are read before other work gets a turn. */
const PAGE = 100
/** Bytes of all cached documents; 10,000 certificates have some 30 million. */
const MAX_BYTES = 134_217_728
const MAX_DOCUMENT_BYTES = 50_331_648
/** Seconds until certificates that are being issued may be held. */
const TRY_AGAIN = 5

type Parts = 'store' | 'holdings' | 'issuance' | 'clock' | 'policy'
export type DocumentDeps = Pick<FastifyInstance, Parts>

/**
 * Makes the dynamic configuration with all certificates that a caller may read. Proxies ask for it
 * every few seconds, so it is cached: a document is made, and its certificates count as delivered,
 * when something has changed and once an hour.
 */
export function createDocuments(deps: DocumentDeps, maxDocumentBytes = MAX_DOCUMENT_BYTES) {
  const cached = new LRUCache<Program, { basis: unknown[]; document: Promise<Buffer> }>({
    maxSize: MAX_BYTES,
  })

  return async (caller: Program, actor: Actor): Promise<Buffer> => {
    const { policy, holdings, clock } = deps
    const basis = [policy, holdings.changes(), Math.floor(clock.now() / HOUR)]
    const cachedDocument = cached.get(caller)
    if (cachedDocument && basis.every((part, i) => part === cachedDocument.basis[i]))
      return cachedDocument.document

    const document = deliverAll(deps, caller, actor, maxDocumentBytes)
    cached.set(caller, { basis, document }, { size: 1 })
    document.then(
      ({ length: size }) => cached.set(caller, { basis, document }, { size }),
      () => cached.delete(caller),
    )
    return document
  }
}

async function deliverAll(
  deps: DocumentDeps,
  caller: Program,
  actor: Actor,
  maxBytes: number,
): Promise<Buffer> {
  const { held: certificates, isWithheld } = await readAll(deps, caller, maxBytes)
  if (certificates.length === 0 && isWithheld) throw keysWithheld(caller)
  // Traefik would drop all certificates for an empty list.
  const none = 'there is no certificate that this key may read'
  if (certificates.length === 0)
    throw new CertError('CERT_NOTHING_HELD', none, { retryAfter: TRY_AGAIN })
  const { issuance } = deps
  await Promise.all(certificates.map((delivered) => issuance.recordDelivery(delivered, actor)))
  return Buffer.from(writeDocument(certificates))
}

/** The error for a proxy that may only read certificates, which are of no use to it without their keys. */
export function keysWithheld({ subject }: Program): CertError {
  return new CertError('CERT_KEY_WITHHELD', `${subject} does not have the right \`issue\``)
}

async function readAll(deps: DocumentDeps, caller: Program, maxBytes: number) {
  const { store, holdings, clock } = deps
  const certificates: Certificate[] = []
  let bytes = 0
  let isWithheld = false
  for (let after = 0; ; await setImmediate()) {
    const page = await store.list({ after, limit: PAGE })
    for (const record of page) {
      after = record.id
      if (!record.sealedKey || record.notAfter <= clock.now()) continue
      if (!isOf('server')(record) || !mayAll(deps, caller, 'read', record)) continue
      if (!mayAll(deps, caller, 'issue', record)) {
        isWithheld = true
        continue
      }
      const certificate = await holdings.of(record)
      certificates.push(certificate)
      bytes += certificate.pem.length
    }
    // Traefik would drop all that a partial list lacks.
    if (bytes > maxBytes)
      throw new CertError('CERT_DOCUMENT_TOO_LARGE', `more than ${maxBytes} bytes of certificates`)
    if (page.length < PAGE) return { held: withoutFuture(certificates, clock.now()), isWithheld }
  }
}

/** Drops certificates that begin in the future if another one for the same names is valid. */
function withoutFuture(certificates: readonly Certificate[], now: number): Certificate[] {
  const namesOf = ({ record }: Certificate) => record.names.toSorted().join()
  const begun = new Set(certificates.filter(({ record }) => hasBegun(record, now)).map(namesOf))
  return certificates.filter(
    (certificate) => hasBegun(certificate.record, now) || !begun.has(namesOf(certificate)),
  )
}

/** Writes the document. The same certificates give the same bytes, which is what Traefik compares. */
function writeDocument(deliveries: readonly Certificate[]): string {
  const sorted = deliveries.toSorted((a, b) => (a.record.requestKey < b.record.requestKey ? -1 : 1))
  const certificates = sorted.map(({ chain, privateKey }) => ({
    certFile: chain,
    keyFile: privateKey,
  }))
  return JSON.stringify({ tls: { certificates } })
}
