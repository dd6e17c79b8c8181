import type { CertError } from '../../errors.ts'
import type { Database } from './database.ts'

/** Finds out whether the database can be used; whether it is sound is up to its operator. */
export class Health {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws CertError CERT_STORE_UNAVAILABLE */
  check = (): Promise<void> => this.#db.saveRunTime()

  inspect = async (): Promise<void> => {}

  failure = (): CertError | undefined => this.#db.failure()
}
