import type { FastifyRequest } from 'fastify'
import type { Service } from '../service.ts'
import type { CertificateRecord } from '../store/store.ts'
import { mayAll } from './access.ts'

const LOOK_AT = 100
/** A request looks at no more than this many times as many, however few its caller may see. */
const MAX_LOOKS = 20

/** A listing of the store, and where to go on with it. */
interface Listing<Place> {
  readonly start: Place
  list(page: { after: Place; limit: number }): Promise<readonly CertificateRecord[]>
  placeOf(record: CertificateRecord): Place
}

/**
 * Reads a listing until `limit` certificates are found that the caller may read. There may be more
 * from `next` on, also where fewer are given.
 */
export async function readPermitted<Place>(
  service: Service,
  request: Pick<FastifyRequest, 'caller'>,
  limit: number,
  { start, list, placeOf }: Listing<Place>,
): Promise<{ records: CertificateRecord[]; next?: Place }> {
  const records: CertificateRecord[] = []
  let after = start
  for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
    const page = await list({ after, limit: LOOK_AT })
    for (const record of page) {
      if (mayAll(service, request, 'read', record)) records.push(record)
      after = placeOf(record)
      if (records.length === limit) return { records, next: after }
    }
    if (page.length < LOOK_AT) return { records }
  }
  return { records, next: after }
}
