import type { Answer } from './answer.ts'

/** What every directory has, and some have besides, to be asked with a signed request. */
export type Resource = 'newAccount' | 'newOrder' | 'revokeCert' | 'keyChange'

/** One request of the protocol and how its answer is read: a value, sent by the transport. */
export interface Call<T> {
  /** A resource by its name in the directory, or a URL that the CA gave. */
  readonly to: Resource | URL
  /** The body for that URL; without it the request is a POST-as-GET. */
  readonly payload?: (url: string) => object
  readonly accept?: string
  /** Whether the CA is asked to decide, so that a refusal with a reason is its decision. */
  readonly isDecision?: boolean
  /** @throws AcmeError `ACME_ANSWER_INVALID` */
  readonly process: (answer: Answer) => T
}
