import { createPrivateKey, type KeyObject } from 'node:crypto'
import { AcmeError, changeKey, newAccount, type Transport, updateAccount } from '@gatehouse/acme'
import { generateP256 } from '@gatehouse/pki'
import type { IssuerConfig } from '../../config/issuers.ts'
import { CertError } from '../../errors.ts'
import type { Keyring } from '../../sealing/keyring.ts'
import type { AccountRecord, Store } from '../../store/store.ts'
import type { IssuanceLimits } from './limits.ts'

/** The account at one CA: its key is kept before the CA hears of it. */
export interface Account {
  /**
   * Registers it first where that is yet to be done.
   *
   * @throws AcmeError; CertError `CERT_TERMS_NOT_AGREED`, `CERT_RATE_LIMITED`
   */
  get(signal?: AbortSignal): Promise<Signer>
  /** Its URL, once it is registered: what a CAA record may call it. */
  url(): Promise<string | undefined>
  /** To be called when the CA says that it does not know the account: it is registered again. */
  renounce(): Promise<void>
  /** Gives it another key. @throws AcmeError */
  rollover(): Promise<void>
}

interface Signer {
  readonly accountUrl: string
  readonly key: KeyObject
}

interface AccountOptions
  extends Pick<IssuerConfig, 'name' | 'email' | 'agreeToTerms' | 'externalAccount'> {
  /** As `accountOf` gives it: what it is stored under. */
  readonly id: string
  /** URL. */
  readonly directory: string
  readonly transport: Transport
  readonly store: Pick<Store, 'findAccount' | 'saveAccount'>
  readonly keyring: Keyring
  readonly limits: Pick<IssuanceLimits, 'admitAccount' | 'registered'>
  readonly log: { info(fields: object, message: string): void }
}

export function createAccount(options: AccountOptions): Account {
  const { name, id, directory, transport, store, keyring, limits, email, externalAccount } = options
  const context = Buffer.from(id)
  const contact = email ?? null
  let opened: Promise<Signer> | undefined

  async function open(signal?: AbortSignal): Promise<Signer> {
    const stored = (await store.findAccount(id)) ?? (await create())
    const record = await settleRollover(stored)
    const key = openKey(record.sealedKey)
    if (record.url === null) return { accountUrl: await register(record, key, signal), key }
    const account = { accountUrl: record.url, key }
    options.log.info({ issuer: name, accountUrl: record.url }, 'the account at the CA')
    if (record.contact !== contact) {
      const changes = { contact: contactUrls(email) }
      await transport.send(updateAccount(record.url, changes), account, signal)
      await store.saveAccount({ ...record, contact })
    }
    return account
  }

  async function create(): Promise<AccountRecord> {
    const record = { directory: id, sealedKey: sealNewKey(), nextKey: null, url: null, contact }
    await store.saveAccount(record)
    return record
  }

  async function register(record: AccountRecord, key: KeyObject, signal?: AbortSignal) {
    const { termsOfService } = (await transport.directory(signal)).meta
    if (termsOfService !== undefined && !options.agreeToTerms)
      throw new CertError(
        'CERT_TERMS_NOT_AGREED',
        `the CA at ${new URL(directory).host} wants its terms to be agreed to: ${termsOfService}`,
      )
    const request = {
      contact: contactUrls(email),
      termsOfServiceAgreed: options.agreeToTerms,
      ...(externalAccount && { externalAccount }),
    }
    const limited = { issuer: name, directory }
    limits.admitAccount(limited)
    const { url } = await transport.send(newAccount(key, request), { key }, signal)
    limits.registered(limited)
    options.log.info({ issuer: name, accountUrl: url }, 'the account at the CA was registered')
    await store.saveAccount({ ...record, url, contact })
    return url
  }

  /** A rollover that was cut short has come through to the CA, or it has not. */
  async function settleRollover(record: AccountRecord): Promise<AccountRecord> {
    if (record.nextKey === null) return record
    const key = openKey(record.nextKey)
    const isTaken = await transport
      .send(newAccount(key, { onlyReturnExisting: true }), { key })
      .then(
        () => true,
        (error) => {
          if (error instanceof AcmeError && error.code === 'ACME_ACCOUNT_DOES_NOT_EXIST')
            return false
          throw error
        },
      )
    const sealedKey = isTaken ? record.nextKey : record.sealedKey
    const settled = { ...record, sealedKey, nextKey: null }
    await store.saveAccount(settled)
    return settled
  }

  async function rollover(): Promise<void> {
    const { accountUrl, key } = await get()
    const record = (await store.findAccount(id)) ?? (await create())
    const nextKey = sealNewKey()
    await store.saveAccount({ ...record, nextKey })
    await transport.send(changeKey(accountUrl, key, openKey(nextKey)), { accountUrl, key })
    await store.saveAccount({ ...record, sealedKey: nextKey, nextKey: null })
    opened = undefined
  }

  function get(signal?: AbortSignal): Promise<Signer> {
    opened ??= open(signal).catch((error) => {
      opened = undefined
      throw error
    })
    return opened
  }

  async function renounce(): Promise<void> {
    opened = undefined
    const record = await store.findAccount(id)
    if (record) await store.saveAccount({ ...record, url: null })
  }

  const sealNewKey = () => keyring.seal('account', generateP256().pkcs8, context)
  const openKey = (sealed: Uint8Array): KeyObject =>
    createPrivateKey({ key: keyring.open(sealed, context), type: 'pkcs8', format: 'der' })

  const url = async () => (await store.findAccount(id))?.url ?? undefined

  return { get, url, renounce, rollover }
}

const contactUrls = (email: string | undefined): string[] =>
  email === undefined ? [] : [`mailto:${email}`]
