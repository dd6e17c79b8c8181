import { setImmediate } from 'node:timers/promises'
import type { Caller } from '@gatehouse/auth-core'
import { parseName } from '@gatehouse/pki'
import { LRUCache } from 'lru-cache'
import type { Requester } from '../audit.ts'
import { hasBegun } from '../clocks.ts'
import { CertError } from '../errors.ts'
import type { Held } from '../issuance/answer.ts'
import type { Policy } from '../policy.ts'
import type { Service } from '../service.ts'

const HOUR = 3_600_000
/** Certificates that are looked at without letting other work in between. */
const PAGE = 100
/** Bytes of all documents that are kept; 10,000 certificates have some 30 million. */
const MAX_BYTES = 134_217_728
/** Of one document. */
const MAX_DOCUMENT_BYTES = 50_331_648
/** Seconds until certificates may be there that are being issued now. */
const TRY_AGAIN = 5

/** What a document was made from. */
interface Basis {
  readonly policy: Policy
  readonly changes: number
  readonly hour: number
}

/** Gives the dynamic configuration with every certificate that a caller may read. */
export type Documents = (caller: Caller, by: Requester) => Promise<Buffer>

/**
 * Documents for proxies that ask every few seconds: one is put together, and its certificates
 * count as handed out, when something has changed and once an hour.
 */
export function createDocuments(
  service: Service,
  maxDocumentBytes = MAX_DOCUMENT_BYTES,
): Documents {
  const kept = new LRUCache<Caller, { basis: Basis; document: Promise<Buffer> }>({
    maxSize: MAX_BYTES,
  })

  return async (caller, by) => {
    const basis: Basis = {
      policy: service.policy(),
      changes: service.holdings.changes(),
      hour: Math.floor(service.clock.now() / HOUR),
    }
    const known = kept.get(caller)
    if (known && isSame(known.basis, basis)) return known.document

    const document = handOutAll(service, caller, by, maxDocumentBytes)
    kept.set(caller, { basis, document }, { size: 1 })
    document.then(
      ({ length: size }) => kept.set(caller, { basis, document }, { size }),
      () => kept.delete(caller),
    )
    return document
  }
}

function isSame(a: Basis, b: Basis): boolean {
  return a.policy === b.policy && a.changes === b.changes && a.hour === b.hour
}

async function handOutAll(
  service: Service,
  caller: Caller,
  by: Requester,
  maxBytes: number,
): Promise<Buffer> {
  const held = await readAll(service, caller, maxBytes)
  // Traefik would take an empty list for an order to drop what it has.
  if (held.length === 0)
    throw new CertError('CERT_NOTHING_HELD', 'none is held that this key may read', {
      retryAfter: TRY_AGAIN,
    })
  await Promise.all(held.map((one) => service.issuance.handOut(one, by)))
  return Buffer.from(writeDocument(held))
}

async function readAll(service: Service, caller: Caller, maxBytes: number): Promise<Held[]> {
  const { store, holdings, clock } = service
  const mayRead = service.policy()
  const held: Held[] = []
  let bytes = 0
  for (let after = 0; ; await setImmediate()) {
    const page = await store.list({ after, limit: PAGE })
    for (const record of page) {
      after = record.id
      if (!record.sealedKey || record.notAfter <= clock.now()) continue
      if (!mayRead(caller, 'read', record.names.map(parseName)).allowed) continue
      const one = holdings.of(record)
      held.push(one)
      bytes += one.pem.length
    }
    // A part of them would make Traefik drop the others.
    if (bytes > maxBytes)
      throw new CertError('CERT_DOCUMENT_TOO_LARGE', `more than ${maxBytes} bytes of certificates`)
    if (page.length < PAGE) return withoutDoubles(held, clock.now())
  }
}

/** One that begins in the future is left out where another one for its names holds. */
function withoutDoubles(held: readonly Held[], now: number): Held[] {
  const namesOf = ({ record }: Held) => record.names.toSorted().join()
  const begun = new Set(held.filter(({ record }) => hasBegun(record, now)).map(namesOf))
  return held.filter((one) => hasBegun(one.record, now) || !begun.has(namesOf(one)))
}

/** The same certificates give the same bytes: Traefik compares no more than those. */
export function writeDocument(held: readonly Held[]): string {
  const sorted = held.toSorted((a, b) => (a.record.lineage < b.record.lineage ? -1 : 1))
  const certificates = sorted.map(({ chain, privateKey }) => ({
    certFile: chain,
    keyFile: privateKey,
  }))
  return JSON.stringify({ tls: { certificates } })
}
