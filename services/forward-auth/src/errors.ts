interface ErrorRow {
  readonly status: number
  readonly title: string
  readonly action: string
}

/** Every error of forward-auth: the status it is told with, what it means, and what to do about it. */
export const FWA_ERRORS = {
  FWA_CALLBACK_FOREIGN: {
    status: 400,
    title: 'Answer of another provider',
    action:
      'Begin again at `loginUrl`. If it happens again, register at each provider the redirect URI that `check-config` prints for it; else one provider may be passing people off as another.',
  },
  FWA_CALLBACK_SHARED: {
    status: 400,
    title: 'Redirect URI of earlier versions',
    action:
      'Register at each provider the redirect URI that `check-config` prints for it. The old one works only in a portal with one provider.',
  },
  FWA_CLIENT_ASSERTION: {
    status: 502,
    title: 'The provider cannot be shown who asks',
    action: 'See the log for why the token of `clientAssertion` could not be read.',
  },
  FWA_CLIENT_REFUSED: {
    status: 502,
    title: 'The provider does not know this site',
    action:
      'Check `clientId` and `clientSecret`, or `clientAssertion`, against what the provider shows for this client; secrets expire there. The log has its error.',
  },
  FWA_CONDITION_HEADER: {
    status: 403,
    title: 'Condition in a header that is not read',
    action:
      'Set `conditionHeader: true` for the portal if the proxy sets X-Forward-Auth-If itself; else have it remove the header.',
  },
  FWA_COOKIE_DUPLICATE: {
    status: 400,
    title: 'Session cookie sent twice',
    action:
      'Delete the cookies of the domain in the browser. If it happens again, a site below the domain sets a cookie of this name: find it, and give it a domain of its own.',
  },
  FWA_FORBIDDEN: {
    status: 403,
    title: 'Not for this account',
    action: 'Sign in as somebody who may in, or ask whoever runs this to let you in.',
  },
  FWA_HEADER_ALIAS: {
    status: 400,
    title: 'Header in a misleading spelling',
    action:
      'Have the proxy drop headers with underscores or dots that resemble X-Forwarded- or identity headers.',
  },
  FWA_HEADER_INVALID: {
    status: 400,
    title: 'Header that cannot be understood',
    action:
      'See what the proxy sends in this header: it must set the header once, over whatever the client sent.',
  },
  FWA_HEADER_MISSING: {
    status: 400,
    title: 'Header missing',
    action:
      'Have the proxy send this header with every check; the guide has a snippet for each proxy.',
  },
  FWA_HOST_RESERVED: {
    status: 403,
    title: 'Check for the host of the sign-in pages',
    action:
      'Have the proxy ask forward-auth at its own address, and put no app on `authHost`: an app that shares the host of the sign-in pages needs a row in `domains` whose `domain` is that host.',
  },
  FWA_HOST_UNKNOWN: {
    status: 403,
    title: 'Host of no configured domain',
    action:
      'Add the domain to `domains`, or keep the proxy from asking for hosts that are not guarded here.',
  },
  FWA_IDENTITY_UNSENDABLE: {
    status: 403,
    title: 'Identity does not fit into a header',
    action:
      'See which header the message names; choose other `headers` for the portal, or have the provider send less.',
  },
  FWA_KEY_UNUSABLE: {
    status: 500,
    title: 'Session keys cannot be used',
    action:
      'Give each secret of `session.keys` at least 32 random characters; or let the service read and write storage.path.',
  },
  FWA_LOGIN_REFUSED: {
    status: 403,
    title: 'The provider did not sign you in',
    action: 'Try again, or sign in with another account or provider.',
  },
  FWA_LOGIN_UNKNOWN: {
    status: 400,
    title: 'This sign-in took too long, or began in another browser',
    action: 'Begin again at `loginUrl`; cookies have to be allowed.',
  },
  FWA_NO_SESSION: {
    status: 401,
    title: 'Not signed in',
    action: 'Open `loginUrl` in a browser and sign in.',
  },
  FWA_ORIGIN_FOREIGN: {
    status: 403,
    title: 'Asked by another site',
    action: 'Sign out on the page of this portal.',
  },
  FWA_PARAMETER_UNKNOWN: {
    status: 400,
    title: 'Unknown parameter of a check',
    action:
      'Only `if` and `policy` may stand in the query of a check, one of them and once. In a Caddyfile, end the `uri` with `?`: else Caddy appends the query of its client.',
  },
  FWA_PEER_UNTRUSTED: {
    status: 403,
    title: 'Asked by somebody who is not a trusted proxy',
    action: 'Add the address of the proxy to `server.trustedProxies`; the log names it.',
  },
  FWA_POLICY_UNKNOWN: {
    status: 403,
    title: 'Policy that the portal does not have',
    action: 'Correct the name in the configuration of the proxy, or add the policy to the portal.',
  },
  FWA_PORTAL_UNKNOWN: {
    status: 404,
    title: 'No such portal',
    action: 'See the name of the portal in the URL; portals are listed in the configuration.',
  },
  FWA_PROVIDER_INVALID: {
    status: 502,
    title: 'The provider answered something that cannot be believed',
    action: 'See the log for what was wrong; check issuer, client and keys of the provider.',
  },
  FWA_PROVIDER_UNKNOWN: {
    status: 404,
    title: 'No such provider',
    action: 'Choose one of those that the sign-in page of the portal lists.',
  },
  FWA_PROVIDER_UNREACHABLE: {
    status: 503,
    title: 'The provider cannot be reached',
    action: 'Try again in a moment, or sign in with another provider.',
  },
  FWA_REQUEST_REFUSED: {
    status: 502,
    title: 'The provider refused the sign-in request',
    action:
      'Register at the provider the redirect URI that `check-config` prints, and allow the client the `scopes` of the configuration. The log has its error.',
  },
  FWA_SESSION_TOO_LARGE: {
    status: 403,
    title: 'The provider tells too much',
    action: 'Have the provider send fewer groups and claims, or ask it for fewer scopes.',
  },
  FWA_SIGN_IN_LOOP: {
    status: 400,
    title: 'Signing in leads in circles',
    action:
      'Have the proxy send the Cookie header with each check (Traefik: leave `authRequestHeaders` out, or name Cookie in it). If it does, delete the cookies of the domain in the browser, and allow them.',
  },
  FWA_SIGN_IN_RATE: {
    status: 429,
    title: 'Signed in too often',
    action: 'Wait as long as `Retry-After` says, then sign in again.',
  },
  FWA_STORE_UNAVAILABLE: {
    status: 503,
    title: 'The list of ended sessions cannot be used',
    action: 'Try again; if it stays, see the disk and the rights of storage.path.',
  },
  FWA_TOKEN_INVALID: {
    status: 401,
    title: 'Not a valid session token of this portal',
    action: 'Send the token of somebody who is signed in at this portal, whole and unchanged.',
  },
  FWA_TOKEN_MISSING: {
    status: 401,
    title: 'No token',
    action: 'Send one header `Authorization: Bearer <session token>`.',
  },
} as const satisfies Record<`FWA_${string}`, ErrorRow>

/** The status of every error that may be told to a client, those of the profile package too. */
export const STATUS_OF: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Object.entries(FWA_ERRORS).map(([code, { status }]) => [code, status])),
  PROFILE_CONDITION_INVALID: 400,
  PROFILE_CONDITION_TOO_LONG: 400,
  PROFILE_CONDITION_TWICE: 400,
}

export type FwaErrorCode = keyof typeof FWA_ERRORS

/** An error of forward-auth; `code` is stable, `message` may be told, `cause` is for the log. */
export class FwaError extends Error {
  override readonly name = 'FwaError'
  readonly code: FwaErrorCode
  readonly title: string
  /** Further members of the problem (RFC 9457 section 3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  /** Seconds after which another try makes sense. */
  readonly retryAfter?: number
  /** Whether message and members are told with a 5xx too. */
  readonly expose?: boolean

  constructor(
    code: FwaErrorCode,
    message: string,
    options: ErrorOptions & Pick<FwaError, 'members' | 'retryAfter' | 'expose'> = {},
  ) {
    super(message, options)
    this.code = code
    this.title = FWA_ERRORS[code].title
    if (options.members) this.members = options.members
    if (options.retryAfter !== undefined) this.retryAfter = options.retryAfter
    if (options.expose !== undefined) this.expose = options.expose
  }
}
