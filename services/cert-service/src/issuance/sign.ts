import {
  buildCsr,
  generateKeyPair,
  generateP256,
  type KeyPair,
  type KeyType,
  keyPairFromPem,
  toPem,
} from '@gatehouse/pki'
import type { Issued } from '../issuers/issuer.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { Store } from '../store/store.ts'
import { type Flight, orderOf } from './flights.ts'

/** What the issuer of a flight gave, and the key where it is ours. */
export interface Signed {
  readonly key: KeyPair | null
  readonly issued: Issued
}

interface SignDeps {
  readonly keyring: Keyring
  readonly store: Pick<Store, 'saveOrder'>
  readonly signal: AbortSignal
  /** For how long faults that pass are put up with, in milliseconds. */
  readonly patience: number
}

/**
 * Has the certificate of a flight signed, for a new key unless the caller has one or an earlier try
 * has saved one.
 */
export async function sign(flight: Flight, deps: SignDeps, replaces?: Uint8Array): Promise<Signed> {
  const { issuer, names, keyType, csr } = flight.request
  if (csr) {
    const request = { names, keyType, spki: csr.spki, csr: () => csr.der, replaces }
    return { key: null, issued: await issuer.issue(request, ioOf(flight, null, deps)) }
  }
  const key = checkpointKey(flight, deps.keyring) ?? (await makeKey(keyType))
  const request = { names, keyType, spki: key.spki, csr: () => buildCsr(key, names), replaces }
  return { key, issued: await issuer.issue(request, ioOf(flight, key, deps)) }
}

function ioOf(flight: Flight, key: KeyPair | null, { keyring, store, signal, patience }: SignDeps) {
  return {
    report(step: string) {
      flight.step = step
    },
    checkpoint: flight.checkpoint?.state,
    async save(state: unknown) {
      const sealedKey = () => key && keyring.seal('leaf', key.pkcs8, contextOf(flight))
      flight.checkpoint =
        state === undefined
          ? undefined
          : { state, sealedKey: flight.checkpoint?.sealedKey ?? sealedKey() }
      flight.filed = store.saveOrder(orderOf(flight))
      await flight.filed
    },
    signal,
    since: flight.since,
    patience,
  }
}

function checkpointKey({ checkpoint, request }: Flight, keyring: Keyring): KeyPair | undefined {
  if (!checkpoint?.sealedKey) return undefined
  const pkcs8 = keyring.open(checkpoint.sealedKey, contextOf({ request }))
  return keyPairFromPem(toPem('PRIVATE KEY', pkcs8))
}

/** A key without a certificate belongs to its lineage. */
const contextOf = ({ request }: Pick<Flight, 'request'>): Buffer => Buffer.from(request.lineage)

function makeKey(type: KeyType): KeyPair | Promise<KeyPair> {
  return type === 'p256' ? generateP256() : generateKeyPair(type)
}
