import { randomBytes } from 'node:crypto'
import type { Postgres } from '@gatehouse/store'
import { FwaError } from '../../errors.ts'
import { type KeyRing, seal, unseal } from '../../keys/key-ring.ts'
import type { SecretName } from '../store.ts'
import { SECRETS } from '../tables.ts'

const REPLACE = 'UPDATE secrets SET sealed = $3 WHERE name = $1 AND sealed = $2'

/** The secrets of all instances, sealed: whoever reads the database learns none of them. */
export function sealedSecretsOf(db: Postgres) {
  /** Secrets, with the ID of the key that seals each. */
  const secrets = new Map<SecretName, { readonly secret: string; readonly kid: string }>()

  async function read(name: SecretName): Promise<string | undefined> {
    return (await SECRETS.find(db, 'WHERE name = $1', name))?.sealed
  }

  /** Makes a secret, unless another instance that starts at the same time was faster. */
  async function make(name: SecretName, sealing: KeyRing): Promise<string> {
    const secret = randomBytes(32).toString('base64url')
    const sealed = seal(secret, sealing, `secret ${name}`)
    await db.transaction((tx) => SECRETS.add(tx, { name, sealed }, ' ON CONFLICT DO NOTHING'))
    return (await read(name)) ?? sealed
  }

  /**
   * Opens a secret with one of the keys, or makes it. It is sealed anew if it was not sealed with the
   * first key, so that the others may go. The database is asked only if the first key is another one.
   *
   * @throws FwaError FWA_KEY_UNUSABLE, STORE_UNAVAILABLE
   */
  return async function open(name: SecretName, sealing: KeyRing): Promise<string> {
    const { first } = sealing
    const stored = secrets.get(name)
    if (stored?.kid === first.kid) return stored.secret
    const sealed = (await read(name)) ?? (await make(name, sealing))
    const purpose = `secret ${name}`
    const current = unseal(sealed, { first, keys: [first] }, purpose)
    const secret = current ?? unseal(sealed, sealing, purpose) ?? stored?.secret
    if (secret === undefined)
      throw new FwaError(
        'FWA_KEY_UNUSABLE',
        `the secret ${name} in the database is sealed with a key that session.keys does not have: append the ` +
          'key of before to session.keys, or delete the row of the table secrets, and a new one is made',
      )
    if (current === undefined) await db.run(REPLACE, name, sealed, seal(secret, sealing, purpose))
    secrets.set(name, { secret, kid: first.kid })
    return secret
  }
}
