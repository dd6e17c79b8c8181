import {
  createHmac,
  createPublicKey,
  hash,
  type JsonWebKey,
  type KeyObject,
  verify,
} from 'node:crypto'
import type { Jws } from '../../src/protocol/jws.ts'

/** The resources of a CA. */
export type Kind =
  | 'directory'
  | 'newNonce'
  | 'newAccount'
  | 'account'
  | 'keyChange'
  | 'newOrder'
  | 'order'
  | 'authorization'
  | 'challenge'
  | 'finalize'
  | 'certificate'
  | 'revokeCert'
  | 'renewalInfo'

/** One request that the CA got. */
export interface Exchange {
  readonly kind: Kind
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Protected header; empty where nothing is signed. */
  readonly header: { alg?: string; kid?: string; jwk?: JsonWebKey; nonce?: string; url?: string }
  /** Undefined in a POST-as-GET. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever was sent
  readonly payload: any
  readonly jws: Jws | undefined
}

/** What is answered; `hang` never answers, and `reset` closes the connection. */
export type Reply =
  | {
      readonly status?: number
      readonly headers?: Readonly<Record<string, string | string[]>>
      readonly body?: string | object
    }
  | 'hang'
  | 'reset'

/** Thrown to answer with a problem document. */
export class Refusal extends Error {
  readonly status: number
  readonly type: string

  constructor(status: number, type: string, detail = type) {
    super(detail)
    this.status = status
    this.type = type
  }
}

export const problem = (type: string, detail = type) => ({
  type: `urn:ietf:params:acme:error:${type}`,
  detail,
})

export function readJws(body: string) {
  const jws = JSON.parse(body) as Jws
  const text = Buffer.from(jws.payload, 'base64url').toString()
  return {
    jws,
    header: decode(jws.protected) as Exchange['header'],
    payload: text === '' ? undefined : JSON.parse(text),
  }
}

const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())

export function isSignedBy(key: KeyObject, { protected: header, payload, signature }: Jws) {
  const digest = key.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return verify(
    digest,
    Buffer.from(`${header}.${payload}`),
    { key, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  )
}

export function isMacOf(hmacKey: string, { protected: header, payload, signature }: Jws) {
  const mac = createHmac('sha256', Buffer.from(hmacKey, 'base64url'))
  return mac.update(`${header}.${payload}`).digest('base64url') === signature
}

export const keyOf = (jwk: JsonWebKey): KeyObject => createPublicKey({ key: jwk, format: 'jwk' })

/** RFC 7638, of an EC key. */
export const thumbprintOf = ({ crv, kty, x, y }: JsonWebKey): string =>
  hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url')
