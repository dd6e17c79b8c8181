import { randomUUID } from 'node:crypto'
import { CertError } from '../errors.ts'
import type { Checkpoint, OrderRecord } from '../store/store.ts'
import type { Held } from './answer.ts'
import type { CertificateRequest } from './request.ts'

const MAX_FLIGHTS = 10_000

/** Work on one lineage, shared by everyone who asks for it and bound to none of them. */
export interface Flight {
  readonly request: CertificateRequest
  readonly since: number
  /** Whom its certificate is to count for; not so where it is a renewal. */
  readonly askedBy: string | undefined
  /** Of its order, should there be one. */
  id: string
  /** Failures in a row before this try. */
  failures: number
  /** What it is doing, in plain words. */
  step: string
  /** What its issuer keeps in the order. */
  checkpoint: Checkpoint | undefined
  readonly landed: Promise<Held>
  /** Set once its order is being written. */
  filed?: Promise<void>
}

type Begin = Pick<Flight, 'request' | 'since' | 'askedBy'>

/** The last step: from here on it is a matter of one commit. */
export const STORING = 'storing'

/** At most one flight per lineage, and so many in all. */
export interface Flights {
  readonly size: number
  get(lineage: string): Flight | undefined
  all(): readonly Flight[]
  /** @throws CertError `CERT_BUSY` when too many are on their way */
  start(begin: Begin, work: (flight: Flight) => Promise<Held>): Flight
}

export function createFlights(): Flights {
  const flights = new Map<string, Flight>()
  return {
    get size() {
      return flights.size
    },
    get: (lineage) => flights.get(lineage),
    all: () => [...flights.values()],
    start(begin, work) {
      if (flights.size >= MAX_FLIGHTS)
        throw new CertError('CERT_BUSY', 'too many certificates are being issued', {
          retryAfter: 5,
        })
      const { promise: landed, resolve } = Promise.withResolvers<Held>()
      const id = randomUUID()
      const flight: Flight = {
        ...begin,
        id,
        failures: 0,
        step: 'starting',
        checkpoint: undefined,
        landed,
      }
      const { lineage } = begin.request
      flights.set(lineage, flight)
      resolve(work(flight).finally(() => flights.delete(lineage)))
      // Whoever waits gets the error; that nobody waits any more is no fault.
      landed.catch(() => {})
      return flight
    },
  }
}

/** Where an order is told of. */
export const orderPath = ({ id }: Pick<OrderRecord, 'id'>): string => `/api/orders/${id}`

/** The order of a flight, as it stands. */
export function orderOf(flight: Flight): OrderRecord {
  const { lineage, issuer, names, keyType, csr } = flight.request
  return {
    id: flight.id,
    lineage,
    issuer: issuer.name,
    names: names.map((name) => name.text),
    keyType,
    csr: csr?.der ?? null,
    status: 'pending',
    step: flight.step,
    since: flight.since,
    failures: flight.failures,
    lastError: null,
    nextTryAt: null,
    ...(flight.checkpoint && { checkpoint: flight.checkpoint }),
    ...(flight.askedBy !== undefined && { askedBy: flight.askedBy }),
  }
}
