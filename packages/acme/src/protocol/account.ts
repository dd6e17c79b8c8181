import type { KeyObject } from 'node:crypto'
import { Type } from 'typebox'
import { type Answer, locationOf, readJson } from './answer.ts'
import type { Call } from './call.ts'
import { bindExternalAccount, type ExternalAccount, publicJwk, signRequest } from './jws.ts'

/** An account at a CA (RFC 8555 section 7.1.2). */
export interface Account {
  /** Names the account in every request: to be kept with its key. */
  readonly url: string
  readonly status: 'valid' | 'deactivated' | 'revoked'
  readonly contact: readonly string[]
}

export interface AccountRequest {
  /** `mailto:` URLs. */
  readonly contact?: readonly string[]
  readonly termsOfServiceAgreed?: boolean
  readonly externalAccount?: ExternalAccount
  /** Finds the account of the key and makes none. */
  readonly onlyReturnExisting?: boolean
}

/** Registers the key, or finds its account; signed by the key itself (RFC 8555 section 7.3). */
export function newAccount(key: KeyObject, request: AccountRequest): Call<Account> {
  const { externalAccount, ...members } = request
  return {
    to: 'newAccount',
    isDecision: true,
    payload: (url) => ({
      ...members,
      ...(externalAccount && {
        externalAccountBinding: bindExternalAccount(externalAccount, key, url),
      }),
    }),
    process: (answer) => readAccount(answer, locationOf(answer).href),
  }
}

/** Changes the contact, or agrees to new terms (RFC 8555 sections 7.3.2, 7.3.3). */
export function updateAccount(
  url: string,
  changes: Pick<AccountRequest, 'contact' | 'termsOfServiceAgreed'>,
): Call<Account> {
  return changeAccount(url, changes)
}

/** Ends the account; the CA takes no request of it any more (RFC 8555 section 7.3.6). */
export function deactivateAccount(url: string): Call<Account> {
  return changeAccount(url, { status: 'deactivated' })
}

/** Gives the account another key; signed by the one it has (RFC 8555 section 7.3.5). */
export function changeKey(accountUrl: string, oldKey: KeyObject, newKey: KeyObject): Call<void> {
  return {
    to: 'keyChange',
    isDecision: true,
    payload: (url) =>
      signRequest({ key: newKey }, { url }, { account: accountUrl, oldKey: publicJwk(oldKey) }),
    process: () => {},
  }
}

function changeAccount(url: string, changes: object): Call<Account> {
  return {
    to: new URL(url),
    isDecision: true,
    payload: () => changes,
    process: (answer) => readAccount(answer, url),
  }
}

const AccountSchema = Type.Object({
  status: Type.Union([Type.Literal('valid'), Type.Literal('deactivated'), Type.Literal('revoked')]),
  contact: Type.Optional(Type.Array(Type.String())),
})

function readAccount(answer: Answer, url: string): Account {
  const { status, contact = [] } = readJson(answer, AccountSchema, 'an account')
  return { url, status, contact }
}
