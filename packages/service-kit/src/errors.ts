import { CodedError } from '@gatehouse/net'

/** The errors that keep a service from starting: what each means, and what to do about it. */
export const CONFIG_ERRORS = {
  CONFIG_UNREADABLE: {
    title: 'Configuration file cannot be read',
    action:
      'Create the file, or name it by --config or $GATEHOUSE_CONFIG. Check its owner, its mode and its size, which may be up to 1 MiB.',
  },
  CONFIG_INVALID: {
    title: 'Configuration is not valid',
    action: 'Correct each line of the report; the reference lists every key.',
  },
  CONFIG_FOREIGN: {
    title: 'Configuration of another program',
    action: 'Run the command that the message names: it prints the configuration that you need.',
  },
  CONFIG_NOT_THEIRS: {
    title: 'Not a configuration of the program to move from',
    action: 'Name the configuration file of that program; its guide says in which forms it may be.',
  },
  CONFIG_FILE_UNUSABLE: {
    title: 'A configured file cannot be used',
    action: 'Check that it exists and that the user of the service may read it.',
  },
  CONFIG_TLS_INVALID: {
    title: 'Certificate and key cannot be used',
    action: 'Configure a PEM certificate chain, leaf first, and the PEM private key of the leaf.',
  },
  CONFIG_LISTEN_FAILED: {
    title: 'Cannot listen on the configured address',
    action: 'Stop the program that uses the port, or configure another host or port.',
  },
} as const satisfies Record<`CONFIG_${string}`, { title: string; action: string }>

/** The codes of problems that every service answers. */
export const HTTP_ERRORS = {
  INTERNAL: {
    title: 'Internal error',
    action: 'Search the log for the request id to find the cause.',
  },
  HTTP_INVALID: {
    title: 'Not a valid HTTP request',
    action:
      'Check the client: the request was too slow, too large or not HTTP (perhaps TLS on a plain port).',
  },
  HTTP_ENCODING: {
    title: 'Encoding not supported',
    action:
      'Send the body without `Content-Encoding`, and with a `Content-Length` or in the transfer coding `chunked` alone.',
  },
  NOT_FOUND: { title: 'Not found', action: 'Check the path; /openapi.json lists all of them.' },
  METHOD_NOT_ALLOWED: {
    title: 'Method not allowed',
    action: 'Use one of the methods in the Allow header.',
  },
  NOT_READY: {
    title: 'Not ready',
    action: 'Try again shortly: the service is starting or stopping, or its store cannot be used.',
  },
} as const satisfies Record<string, { title: string; action: string }>

/** The codes of Fastify that a client can see: what they mean, and what to do about them. */
export const FASTIFY_ERRORS = {
  FST_ERR_BAD_URL: {
    title: 'Path is not valid',
    action: 'Percent-encode the path as UTF-8: two hexadecimal digits follow every `%`.',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: {
    title: 'Body too large',
    action: 'Send a smaller body; /openapi.json describes each path.',
  },
  FST_ERR_CTP_EMPTY_JSON_BODY: {
    title: 'Body missing',
    action: 'Send a JSON body, or leave `Content-Type` out if the path takes none.',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    title: 'Body does not match Content-Length',
    action: 'Let the HTTP client set `Content-Length`.',
  },
  FST_ERR_CTP_INVALID_JSON_BODY: {
    title: 'Body is not JSON',
    action: 'Send one JSON value in UTF-8, without members named `__proto__` or `constructor`.',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    title: 'Content type not supported',
    action:
      'Send the `Content-Type` that the answer names; with `-d`, `curl` sends another one unless `-H` sets it.',
  },
  FST_ERR_MAX_PARAM_LENGTH: {
    title: 'Part of the path too long',
    action: 'Shorten the name in the path.',
  },
  FST_ERR_VALIDATION: {
    title: 'Request is not valid',
    action: 'Correct each member listed under `errors`; /docs describes all of them.',
  },
  FST_STATIC_FORBIDDEN_PATH: {
    title: 'Path not allowed',
    action: 'Use the links on /docs.',
  },
} as const satisfies Record<`FST_${string}`, { title: string; action: string }>

/** The codes of {@link ConfigError}. */
export type ConfigErrorCode = keyof typeof CONFIG_ERRORS

/** A fault of a configuration file. It never has the value, which may be a secret. */
export interface ConfigFault {
  readonly file: string
  /** The line, from 1. */
  readonly line: number
  /** The column, from 1. */
  readonly column: number
  /** JSON pointer (RFC 6901). */
  readonly path: string
  readonly message: string
}

/** The reason why a service cannot start. `code` is stable, and `message` can be printed as it is. */
export class ConfigError extends CodedError<ConfigErrorCode> {
  override readonly name = 'ConfigError'
  /** The faults in the order of the file; none unless the code is CONFIG_INVALID. */
  readonly faults: readonly ConfigFault[]

  constructor(
    code: ConfigErrorCode,
    message: string,
    { faults = [], ...options }: ErrorOptions & { faults?: readonly ConfigFault[] } = {},
  ) {
    super(code, message, options)
    this.faults = faults
  }
}
