import type { Resident, Session } from './session.ts'

const TRY = 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS leads'
const RESIGN = 'SELECT pg_advisory_unlock(hashtextextended($1, 0))'

/** Advisory locks on the connection of the session: whoever has one leads, until the connection breaks. */
export class Leadership implements Resident {
  readonly #session: Session
  readonly #schema: string
  readonly #held = new Map<string, (() => void) | undefined>()
  readonly #trying = new Map<string, Promise<boolean>>()

  constructor(session: Session, schema: string) {
    this.#session = session
    this.#schema = schema
    session.add(this)
  }

  leads(key: string): boolean {
    return this.#held.has(key)
  }

  async tryLead(key: string, lost: (() => void) | undefined): Promise<boolean> {
    if (this.#held.has(key)) return true
    // The lock would be taken twice.
    const trying = this.#trying.get(key) ?? this.#take(key, lost)
    this.#trying.set(key, trying)
    return await trying.finally(() => this.#trying.delete(key))
  }

  async resign(key: string): Promise<void> {
    if (!this.#held.delete(key)) return
    const { connection } = this.#session
    await connection?.all(RESIGN, [this.#nameOf(key)]).catch((error) => connection.destroy(error))
  }

  leave(): void {
    const losses = [...this.#held.values()]
    this.#held.clear()
    for (const lost of losses) lost?.()
  }

  async #take(key: string, lost: (() => void) | undefined): Promise<boolean> {
    const { connection } = this.#session
    const rows = await connection?.all(TRY, [this.#nameOf(key)]).catch(() => [])
    if (!rows?.[0]?.leads || connection?.lost) return false
    this.#held.set(key, lost)
    return true
  }

  #nameOf(key: string): string {
    return `${this.#schema}/${key}`
  }
}
