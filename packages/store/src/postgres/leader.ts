import type { Resident, Session } from './session.ts'

const TRY = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS leads'

/** Advisory locks on the connection of the session: whoever has one leads, until the connection breaks. */
export class Leadership implements Resident {
  readonly #session: Session
  readonly #schema: string
  readonly #leads = new Set<string>()
  readonly #trying = new Map<string, Promise<boolean>>()

  constructor(session: Session, schema: string) {
    this.#session = session
    this.#schema = schema
    session.add(this)
  }

  leads(key: string): boolean {
    return this.#leads.has(key)
  }

  async tryLead(key: string): Promise<boolean> {
    if (this.#leads.has(key)) return true
    // The lock would be taken twice.
    const trying = this.#trying.get(key) ?? this.#take(key)
    this.#trying.set(key, trying)
    return await trying.finally(() => this.#trying.delete(key))
  }

  leave(): void {
    this.#leads.clear()
  }

  async #take(key: string): Promise<boolean> {
    const { connection } = this.#session
    const rows = await connection?.all(TRY, [`${this.#schema}/${key}`]).catch(() => [])
    if (!rows?.[0]?.leads || connection?.lost) return false
    this.#leads.add(key)
    return true
  }
}
