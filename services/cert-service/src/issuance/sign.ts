import { generateKeyPair, generateP256, type KeyPair, type KeyType } from '@gatehouse/pki'
import type { Issued } from '../issuers/issuer.ts'
import type { Flight } from './flights.ts'

/** What the issuer of a flight gave, and the key where it is ours. */
export interface Signed {
  readonly key: KeyPair | null
  readonly issued: Issued
}

/** Has the certificate of a flight signed, for a new key unless the caller has one. */
export async function sign(flight: Flight): Promise<Signed> {
  const { issuer, names, keyType, csr } = flight.request
  const report = (step: string) => {
    flight.step = step
  }
  if (csr) {
    const issued = await issuer.issue({ names, keyType, spki: csr.spki, csr: csr.der }, report)
    return { key: null, issued }
  }
  const key = await makeKey(keyType)
  const issued = await issuer.issue({ names, keyType, spki: key.spki, csr: null }, report)
  return { key, issued }
}

function makeKey(type: KeyType): KeyPair | Promise<KeyPair> {
  return type === 'p256' ? generateP256() : generateKeyPair(type)
}
