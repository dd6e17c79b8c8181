import { createPrivateKey, type KeyObject } from 'node:crypto'
import {
  AcmeError,
  changeKey,
  newAccount,
  type RequestSigner,
  type Transport,
  updateAccount,
} from '@gatehouse/acme'
import type { Keyring } from '@gatehouse/cert-store'
import type { AccountRecord, Store } from '@gatehouse/cert-store/port'
import { generateP256 } from '@gatehouse/pki'
import { IssuanceError } from '../../errors.ts'
import type { Ledger } from '../../limits/ledger.ts'
import { accountOf, directoryOf, type IssuerConfig } from '../../options/issuers.ts'

type AccountSigner = Required<RequestSigner>

interface AccountOptions
  extends Pick<
    IssuerConfig,
    'name' | 'directory' | 'account' | 'email' | 'agreeToTerms' | 'externalAccount'
  > {
  readonly transport: Transport
  readonly store: Pick<Store, 'findAccount' | 'addAccount' | 'saveAccount'>
  readonly keyring: Keyring
  readonly limits: Pick<Ledger, 'admitAccount' | 'registered'>
  readonly log: { info(fields: object, message: string): void }
}

/** The account at one CA. Its key is stored before the CA sees it. */
export class AcmeAccount {
  readonly #options: AccountOptions
  /** The key of its row. */
  readonly #id: string
  #opened: Promise<AccountSigner> | undefined

  constructor(options: AccountOptions) {
    this.#options = options
    this.#id = accountOf(options)
  }

  /**
   * URL and key of the account, which is registered first if that has not been done.
   * @throws AcmeError; IssuanceError `CERT_TERMS_NOT_AGREED`, `CERT_RATE_LIMITED`
   */
  get(signal?: AbortSignal): Promise<AccountSigner> {
    this.#opened ??= this.#open(signal).catch((error) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }

  /** The URL of the account once it is registered: what a CAA record may require (RFC 8657). */
  async url(): Promise<string | undefined> {
    return (await this.#find())?.url ?? undefined
  }

  /**
   * Forgets an account that the CA does not know: the next {@link get} registers it again, unless
   * another replica has given it another key meanwhile.
   */
  async renounce(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined)
    this.#opened = undefined
    const record = await this.#find()
    if (!record || (opened && !(await this.#openKey(record.sealedKey)).equals(opened.key))) return
    await this.#options.store.saveAccount({ ...record, url: null })
  }

  /** Gives the account another key (RFC 8555, section 7.3.5). @throws AcmeError */
  async rollover(): Promise<void> {
    const { store, transport } = this.#options
    const { accountUrl, key } = await this.get()
    const record = (await this.#find()) ?? (await this.#create())
    const nextKey = this.#sealNewKey()
    await store.saveAccount({ ...record, nextKey })
    const change = changeKey(accountUrl, key, await this.#openKey(nextKey))
    await transport.send(change, { accountUrl, key })
    await store.saveAccount({ ...record, sealedKey: nextKey, nextKey: null })
    this.#opened = undefined
  }

  async #open(signal?: AbortSignal): Promise<AccountSigner> {
    const { name, email, transport, store, log } = this.#options
    const stored = (await this.#find()) ?? (await this.#create())
    const record = await this.#settleRollover(stored)
    const key = await this.#openKey(record.sealedKey)
    if (record.url === null) return { accountUrl: await this.#register(record, key, signal), key }
    const account = { accountUrl: record.url, key }
    log.info({ issuer: name, accountUrl: record.url }, 'using this account at the CA')
    const contact = email ?? null
    if (record.contact !== contact) {
      const changes = { contact: contactUrls(email) }
      await transport.send(updateAccount(record.url, changes), account, signal)
      await store.saveAccount({ ...record, contact })
    }
    return account
  }

  async #register(record: AccountRecord, key: KeyObject, signal?: AbortSignal): Promise<string> {
    const { name, directory, transport, limits, email, agreeToTerms } = this.#options
    const { externalAccount, store, log } = this.#options
    const { termsOfService } = (await transport.directory(signal)).meta
    if (termsOfService !== undefined && !agreeToTerms)
      throw new IssuanceError(
        'CERT_TERMS_NOT_AGREED',
        `the CA at ${new URL(directoryOf(directory)).host} requires its terms of service to be agreed to: ${termsOfService}`,
      )
    const request = {
      contact: contactUrls(email),
      termsOfServiceAgreed: agreeToTerms,
      ...(externalAccount && { externalAccount }),
    }
    const limited = { issuer: name, directory: directoryOf(directory) }
    await limits.admitAccount(limited)
    const { url } = await transport
      .send(newAccount(key, request), { key }, signal)
      .catch((error) => {
        throw externalAccount ? bindingError(error) : error
      })
    await limits.registered(limited)
    log.info({ issuer: name, accountUrl: url }, 'an account was registered at the CA')
    await store.saveAccount({ ...record, url, contact: email ?? null })
    return url
  }

  /** Finds out whether an interrupted rollover reached the CA. */
  async #settleRollover(record: AccountRecord): Promise<AccountRecord> {
    if (record.nextKey === null) return record
    const sealedKey = (await this.#isRegistered(record.nextKey)) ? record.nextKey : record.sealedKey
    const settled = { ...record, sealedKey, nextKey: null }
    await this.#options.store.saveAccount(settled)
    return settled
  }

  async #isRegistered(sealedKey: Uint8Array): Promise<boolean> {
    const key = await this.#openKey(sealedKey)
    try {
      await this.#options.transport.send(newAccount(key, { onlyReturnExisting: true }), { key })
      return true
    } catch (error) {
      if (error instanceof AcmeError && error.code === 'ACME_ACCOUNT_DOES_NOT_EXIST') return false
      throw error
    }
  }

  #find(): Promise<AccountRecord | undefined> {
    return this.#options.store.findAccount(this.#id)
  }

  async #create(): Promise<AccountRecord> {
    const { email, store } = this.#options
    const sealedKey = this.#sealNewKey()
    const contact = email ?? null
    const record = { directory: this.#id, sealedKey, nextKey: null, url: null, contact }
    // Of replicas that start at the same time, one makes the account.
    return store.addAccount(record)
  }

  #sealNewKey(): Buffer {
    return this.#options.keyring.seal('account', generateP256().pkcs8, Buffer.from(this.#id))
  }

  async #openKey(sealed: Uint8Array): Promise<KeyObject> {
    const key = await this.#options.keyring.openAny(sealed, Buffer.from(this.#id))
    return createPrivateKey({ key, type: 'pkcs8', format: 'der' })
  }
}

const contactUrls = (email: string | undefined): string[] =>
  email === undefined ? [] : [`mailto:${email}`]

/** CAs have several types for an external account that they do not know (RFC 8555 section 7.3.4). */
function bindingError(error: unknown): unknown {
  if (!(error instanceof AcmeError)) return error
  const { code, message, problem } = error
  if (code !== 'ACME_UNAUTHORIZED' && code !== 'ACME_MALFORMED') return error
  return new AcmeError('ACME_EXTERNAL_ACCOUNT_REQUIRED', message, {
    cause: error,
    ...(problem && { problem }),
    isDecision: true,
  })
}
