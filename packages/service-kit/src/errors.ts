/** Every error that keeps a service from starting: what it means, and what to do about it. */
export const CONFIG_ERRORS = {
  CONFIG_NOT_FOUND: {
    title: 'No configuration file',
    action: 'Create the file, or name it by --config or $GATEHOUSE_CONFIG.',
  },
  CONFIG_UNREADABLE: {
    title: 'Configuration file cannot be read',
    action: 'See its owner, its mode and its size: it is read whole, up to 1 MiB.',
  },
  CONFIG_INVALID: {
    title: 'Configuration has faults',
    action: 'Correct each line of the report; the reference lists every key.',
  },
  CONFIG_FILE_UNUSABLE: {
    title: 'A file that the configuration names cannot be used',
    action: 'See whether it is there, and whether the user of the service may read it.',
  },
  CONFIG_TLS_INVALID: {
    title: 'Certificate and key cannot be used',
    action: 'Give a PEM certificate chain, leaf first, and the PEM private key of that leaf.',
  },
  CONFIG_LISTEN_FAILED: {
    title: 'Cannot listen on the configured address',
    action: 'End what holds the port, or configure another host or port.',
  },
} as const satisfies Record<`CONFIG_${string}`, { title: string; action: string }>

/** Codes of problems that every service answers by itself. */
export const HTTP_ERRORS = {
  INTERNAL: {
    title: 'Internal error',
    action: 'Look the request id up in the log, which has the cause.',
  },
  HTTP_INVALID: {
    title: 'Not a valid HTTP request',
    action:
      'See what sends it: it was too slow, too large or not HTTP (perhaps TLS on a plain port).',
  },
  HTTP_ENCODING: {
    title: 'Encoding not supported',
    action:
      'Send the body without `Content-Encoding`, and with a `Content-Length` or in the transfer coding `chunked` alone.',
  },
  NOT_FOUND: { title: 'Not found', action: 'See the path; /openapi.json lists every one.' },
  METHOD_NOT_ALLOWED: {
    title: 'Method not allowed',
    action: 'Use one of the methods of the Allow header.',
  },
  NOT_READY: {
    title: 'Not ready',
    action: 'Try again shortly: the service is starting, stopping, or without its store.',
  },
} as const satisfies Record<string, { title: string; action: string }>

/** Codes of Fastify that a request can meet: what they mean, and what to do about them. */
export const FASTIFY_ERRORS = {
  FST_ERR_BAD_URL: {
    title: 'Path is not valid',
    action: 'Percent-encode the path: every `%` begins two hexadecimal digits of UTF-8.',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: {
    title: 'Body too large',
    action: 'Send less at once; the answers of each path are listed under /openapi.json.',
  },
  FST_ERR_CTP_EMPTY_JSON_BODY: {
    title: 'Body missing',
    action: 'Send a JSON body, or leave `Content-Type` out if the path takes none.',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    title: 'Length of the body is not what was announced',
    action: 'Let the HTTP client set `Content-Length` by itself.',
  },
  FST_ERR_CTP_INVALID_JSON_BODY: {
    title: 'Body is not JSON',
    action: 'Send one JSON value in UTF-8, without members named `__proto__` or `constructor`.',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    title: 'Content type not supported',
    action:
      'Send the `Content-Type` that the answer names; `curl` sends another one with `-d` unless told by `-H`.',
  },
  FST_ERR_MAX_PARAM_LENGTH: {
    title: 'Part of the path too long',
    action: 'Shorten the name in the path.',
  },
  FST_ERR_VALIDATION: {
    title: 'Request is not valid',
    action: 'Correct each member under `errors`; /docs describes all of them.',
  },
} as const satisfies Record<`FST_${string}`, { title: string; action: string }>

export type ConfigErrorCode = keyof typeof CONFIG_ERRORS

/** One fault of a configuration file. The value is never part of it: it may be a secret. */
export interface ConfigFault {
  readonly file: string
  /** From 1. */
  readonly line: number
  /** From 1. */
  readonly column: number
  /** JSON pointer (RFC 6901). */
  readonly path: string
  readonly message: string
}

/** What keeps a service from starting; `code` is stable, `message` is fit to be printed as it is. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly code: ConfigErrorCode
  /** By position in the file; empty unless the code is CONFIG_INVALID. */
  readonly faults: readonly ConfigFault[]

  constructor(
    code: ConfigErrorCode,
    message: string,
    { faults = [], ...options }: ErrorOptions & { faults?: readonly ConfigFault[] } = {},
  ) {
    super(message, options)
    this.code = code
    this.faults = faults
  }
}
