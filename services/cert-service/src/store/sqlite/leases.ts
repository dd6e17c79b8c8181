import { leaseLost } from '../../errors.ts'
import type { Lease, Work } from '../store.ts'
import type { Database } from './database.ts'

const CURRENT = 'SELECT id FROM certificates WHERE lineage = ? AND current = 1'
const NEVER = new AbortController().signal

/** Leases in memory, as no other process works on the store. */
export class Leases {
  readonly #db: Database
  readonly #works = new Map<string, Work & { readonly token: number }>()
  #lastToken = 0

  constructor(db: Database) {
    this.#db = db
  }

  takeLease = async (work: Work): Promise<Lease> => {
    const { lineage } = work
    const currentId = await this.#db.read(() => this.#currentId(lineage))
    const token = ++this.#lastToken
    this.#works.set(lineage, { ...work, token })
    return { lineage, token, currentId, lost: NEVER }
  }

  releaseLease = async (lease: Lease): Promise<void> => this.end(lease)

  isBusyElsewhere = async () => false

  /** Part of a write. @throws CertError CERT_LEASE_LOST */
  assertInForce({ lineage, token, currentId }: Lease): void {
    const isInForce = this.#works.get(lineage)?.token === token
    const current = this.#currentId(lineage)
    if (isInForce && (current === null || current === currentId)) return
    throw leaseLost(lineage)
  }

  end({ lineage, token }: Lease): void {
    if (this.#works.get(lineage)?.token === token) this.#works.delete(lineage)
  }

  /** Names in certificates that are being issued for a caller. */
  namesFor(askedBy: string, upTo?: Lease): number {
    return this.#sum((work) => (work.askedBy === askedBy ? work.names : 0), upTo)
  }

  /** Certificates that are being issued under a first name, but for renewals. */
  worksFor(domain: string, upTo?: Lease): number {
    return this.#sum((work) => Number(work.domain === domain && work.askedBy !== undefined), upTo)
  }

  #sum(count: (work: Work) => number, upTo?: Lease): number {
    return [...this.#works.values()]
      .filter(({ token }) => !upTo || token <= upTo.token)
      .reduce((sum, work) => sum + count(work), 0)
  }

  #currentId(lineage: string): number | null {
    return (this.#db.prepare(CURRENT).get(lineage)?.id as number | undefined) ?? null
  }
}
