import { CodedError } from '@gatehouse/net'

/** The errors of the client: meaning and what to do about it. Errors of the service keep the codes that it sends. */
export const CLIENT_ERRORS = {
  CERT_CLIENT_ANSWER_INVALID: {
    title: 'Response is not one of cert-service',
    action: 'Check `--url`: something else seems to answer there.',
  },
  CERT_CLIENT_CERTIFICATE_INVALID: {
    title: 'Certificate cannot be used',
    action:
      'Nothing was changed. Check the clock of this machine and of the service, and the log of the service.',
  },
  CERT_CLIENT_CREDENTIALS: {
    title: 'No usable credentials',
    action:
      'Name a key by `--key-file`, a token by `--token-file`, or a client by `--client-id` and ' +
      '`--client-secret-file`; the password of PKCS#12 files, in ASCII, by `--p12-password-file`. ' +
      'Check that this user may read the file.',
  },
  CERT_CLIENT_FILES: {
    title: 'Files could not be written',
    action:
      'The files that were there are unchanged. Check the folder of `--out`, its permissions, `--owner` and the free space.',
  },
  CERT_CLIENT_LOCKED: {
    title: 'Another client is busy in the folder',
    action: 'Try again when it has ended. It may be waiting for its `--reload` command.',
  },
  CERT_CLIENT_NOT_SERVED: {
    title: 'Certificate is not served',
    action:
      'Reload the server. If it was, its configuration names other files, or `--probe` names another server.',
  },
  CERT_CLIENT_ORDER_PENDING: {
    title: 'Certificate is not issued yet',
    action: 'Run the same command again later: it continues to wait for the same order.',
  },
  CERT_CLIENT_REFUSED: {
    title: 'Request was refused',
    action: 'Check `--url` and what is in front of the service. Its log has the details.',
  },
  CERT_CLIENT_RELOAD_FAILED: {
    title: 'Reload command failed',
    action:
      'The new files are in place. Run the command by hand to see what it says. The next run of the client tries it again.',
  },
  CERT_CLIENT_SECRET_FAILED: {
    title: 'Kubernetes Secret could not be read or written',
    action:
      'The service account of the pod needs `get` and `patch` for the Secret, and `create` if it does not exist yet.',
  },
  CERT_CLIENT_UNREACHABLE: {
    title: 'Service cannot be reached',
    action: 'Check that the service runs, `--url` and the network. The old files are kept.',
  },
  CERT_CLIENT_UNTRUSTED: {
    title: 'Service is not trusted',
    action:
      'Name the root that its certificate leads to by `--ca FILE`, and use a host name in `--url` that is in its certificate. ' +
      'If there is a file of `--ca-out`, it counts instead: delete it to begin with that of `--ca` again.',
  },
} as const satisfies Record<`CERT_CLIENT_${string}`, { title: string; action: string }>

export interface ErrorHints extends ErrorOptions {
  /** Whether the same may succeed later without anyone's help. */
  readonly isTransient?: boolean
  /** Milliseconds after which the service asks to try again. */
  readonly retryAfterMs?: number | undefined
  readonly action?: string | undefined
}

/** An error of the client, or of the service, whose codes come as they are. */
export class ClientError extends CodedError<string> {
  override readonly name = 'ClientError'
  readonly isTransient: boolean
  readonly retryAfterMs: number | undefined
  readonly action: string | undefined

  constructor(code: string, message: string, hints: ErrorHints = {}) {
    super(code, message, hints)
    const { isTransient = false, retryAfterMs, action } = hints
    this.isTransient = isTransient
    this.retryAfterMs = retryAfterMs
    this.action = action ?? Object(CLIENT_ERRORS)[code]?.action
  }
}

/** An error as a line of the log has it. */
export function describe({ code, message, action }: ClientError): object {
  return { code, detail: message, ...(action !== undefined && { action }) }
}
