/** Every error of this package: its meaning and what to do about it. */
export const NET_ERRORS = {
  NET_URL_INVALID: {
    title: 'URL is not valid',
    action:
      'Write an absolute https URL with a plain host name, without user name, password or fragment.',
  },
  NET_URL_INSECURE: {
    title: 'URL is not encrypted',
    action:
      'Use https. Plain http works for loopback names, or if the configuration allows it explicitly.',
  },
  NET_URL_INTERNAL: {
    title: 'URL named by another server is internal',
    action:
      'Check what the other server publishes. If the address is right, configure it, for example as `jwksUrl`.',
  },
  NET_ADDRESS_REFUSED: {
    title: 'Address is not allowed',
    action:
      'Check what the name resolves to here: each of its addresses must be one that may be called.',
  },
  NET_FETCH_TIMEOUT: {
    title: 'No complete answer in time',
    action: 'Check that the other server is reachable from here and not overloaded.',
  },
  NET_FETCH_TOO_LARGE: {
    title: 'Answer is too large',
    action: 'Check the URL: the answer is larger than any genuine one.',
  },
  NET_FETCH_STATUS: {
    title: 'Answer has an unexpected status',
    action:
      'Open the URL by hand. Redirects are not followed: configure the address that they lead to.',
  },
  NET_FETCH_TYPE: {
    title: 'Answer has an unexpected content type',
    action: 'Check the URL: often a login or error page answers instead.',
  },
  NET_FETCH_FAILED: {
    title: 'Request failed',
    action: 'Read why: the name, the connection, or the certificate of the other server.',
  },
} as const satisfies Record<`NET_${string}`, { title: string; action: string }>

export type NetErrorCode = keyof typeof NET_ERRORS

/** The base of a package's errors: `code` is stable, `message` says what is wrong. */
export class CodedError<Code extends string> extends Error {
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

type Titles<Code extends string> = Readonly<Record<Code, { readonly title: string }>>

/** The cause of an error, and what problem details show of it (RFC 9457) besides its code and message. */
export type TitledErrorOptions = ErrorOptions &
  Pick<TitledError, 'members' | 'retryAfter' | 'expose' | 'headers'>

/** The base of errors that clients see as problem details (RFC 9457): with the title of its code. */
export class TitledError<Code extends string = string> extends CodedError<Code> {
  readonly title: string
  /** Additional members of the problem (section 3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  /** Seconds after which another try makes sense. */
  readonly retryAfter?: number
  /** Whether clients see `message` and `members` even with a 5xx status. */
  readonly expose?: boolean
  /** Headers of the answer. */
  readonly headers?: Readonly<Record<string, string | string[]>>

  constructor(table: Titles<Code>, code: Code, message: string, options: TitledErrorOptions = {}) {
    super(code, message, options)
    this.title = table[code].title
    const { cause, ...details } = options
    Object.assign(this, details)
  }
}

/** Tells whether an error is such a one with this code. */
export function hasCode<Code extends string>(
  error: unknown,
  code: Code,
): error is TitledError<Code> {
  return error instanceof TitledError && error.code === code
}

/** An error of this package. */
export class NetError extends CodedError<NetErrorCode> {
  override readonly name = 'NetError'
}
