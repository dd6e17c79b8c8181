import type { KeyObject } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { bindExternalAccount, type ExternalAccount, publicJwk, signRequest } from './jws.ts'
import { type AcmeRequest, type AcmeResponse, locationOf, readJson } from './request.ts'

const AccountSchema = Type.Object({
  status: Type.Enum(['valid', 'deactivated', 'revoked']),
  contact: Type.Optional(Type.Array(Type.String())),
})

/** An account object (RFC 8555 section 7.1.2). */
export interface AcmeAccount extends Readonly<Required<Static<typeof AccountSchema>>> {
  /** Identifies the account in every request; store it with the key. */
  readonly url: string
}

export interface NewAccount {
  /** `mailto:` URLs. */
  readonly contact?: readonly string[]
  readonly termsOfServiceAgreed?: boolean
  readonly externalAccount?: ExternalAccount
  /** Finds the account of the key, but does not create one. */
  readonly onlyReturnExisting?: boolean
}

/** Registers the key or finds its account; the key itself signs (RFC 8555 section 7.3). */
export function newAccount(key: KeyObject, request: NewAccount): AcmeRequest<AcmeAccount> {
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
    process: (response) => readAccount(response, locationOf(response).href),
  }
}

/** Changes the contact, or agrees to new terms (RFC 8555 sections 7.3.2, 7.3.3). */
export function updateAccount(
  url: string,
  changes: Pick<NewAccount, 'contact' | 'termsOfServiceAgreed'>,
): AcmeRequest<AcmeAccount> {
  return {
    to: new URL(url),
    isDecision: true,
    payload: () => changes,
    process: (response) => readAccount(response, url),
  }
}

/** Replaces the key of the account; the old key signs (RFC 8555 section 7.3.5). */
export function changeKey(kid: string, oldKey: KeyObject, newKey: KeyObject): AcmeRequest<void> {
  return {
    to: 'keyChange',
    isDecision: true,
    payload: (url) =>
      signRequest({ key: newKey }, { url }, { account: kid, oldKey: publicJwk(oldKey) }),
    process: () => {},
  }
}

function readAccount(response: AcmeResponse, url: string): AcmeAccount {
  const { status, contact = [] } = readJson(response, AccountSchema, 'an account')
  return { url, status, contact }
}
