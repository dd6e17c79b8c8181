import { TitledError } from '@gatehouse/net'

export const GATE_ERRORS = {
  FWA_HEADER_ALIAS: {
    title: 'Ambiguous header name',
    action:
      'Have the proxy drop headers with underscores or dots that resemble X-Forwarded- or identity headers.',
  },
  FWA_HEADER_INVALID: {
    title: 'Invalid or missing header',
    action:
      'The proxy must send this header with every check, exactly once, and replace what the client sent. ' +
      'The guides have a configuration for each proxy.',
  },
  FWA_HOST_UNKNOWN: {
    title: 'Host is not on a configured domain',
    action:
      'Add the domain to `domains`, or do not send checks for hosts that forward-auth does not protect.',
  },
  FWA_IDENTITY_UNSENDABLE: {
    title: 'Identity does not fit into a header',
    action:
      'The message names the header. Configure other `headers` for the portal, or have the provider send less.',
  },
  FWA_PARAMETER_UNKNOWN: {
    title: 'Unknown query parameter',
    action:
      'A check takes either `if` or `policy` in its query, once. In a Caddyfile, end the `uri` ' +
      'with `?`, or Caddy appends the query of the client.',
  },
  FWA_POLICY_UNKNOWN: {
    title: 'No such policy',
    action: 'Correct the name in the configuration of the proxy, or add the policy to the portal.',
  },
} as const satisfies Record<`FWA_${string}`, { title: string; action: string }>

type GateErrorCode = keyof typeof GATE_ERRORS

/** An error of a check, which denies the request. */
export class GateError extends TitledError<GateErrorCode> {
  override readonly name = 'GateError'

  constructor(code: GateErrorCode, message: string, options?: ErrorOptions) {
    super(GATE_ERRORS, code, message, options)
  }
}
