/**
 * The reason why no certificate was seen. `unreachable`: there is no connection. `timeout`: it took too long.
 * `closed`: the server ended the connection. `refused`: it sent a TLS alert, as to a name or a kind of key that
 * it does not have. `protocol`: it does not speak the protocol, or has no TLS.
 */
export type ProbeFailure = 'unreachable' | 'timeout' | 'closed' | 'refused' | 'protocol'

/** Ends a probe. The message is a sentence whose subject, the server, is left out. */
export class ProbeError extends Error {
  override readonly name = 'ProbeError'
  readonly failure: ProbeFailure

  constructor(failure: ProbeFailure, message: string) {
    super(message)
    this.failure = failure
  }
}
