import { GATE_ERRORS } from '@gatehouse/gate'
import { PROVIDER_ERRORS } from '@gatehouse/identity-providers'
import { TitledError, type TitledErrorOptions } from '@gatehouse/net'
import { STORE_ERRORS, StoreError } from '@gatehouse/store'

/** The errors of forward-auth itself by code: HTTP status, title, and what to do about it. */
export const FWA_ERRORS = {
  FWA_APP_INSECURE: {
    status: 403,
    title: 'App on plain http',
    action:
      'Serve the app over HTTPS, because browsers send the session only over HTTPS. If another ' +
      'proxy in front does, let it send `X-Forwarded-Proto: https`, and let this proxy trust it.',
  },
  FWA_BUSY: {
    status: 503,
    title: 'Too many sign-ins at once',
    action:
      'Wait as long as `Retry-After` says, then sign in again. If it happens every day, run more instances.',
  },
  FWA_CALLBACK_FOREIGN: {
    status: 400,
    title: 'Callback from another provider',
    action:
      'Start again at `loginUrl`. If it happens again, register at each provider the redirect ' +
      'URI that `check-config` prints for it. If that does not help, one provider may be ' +
      'trying to obtain the codes of another.',
  },
  FWA_CALLBACK_SHARED: {
    status: 400,
    title: 'Callback at the shared redirect URI',
    action:
      'Register at each provider the redirect URI that `check-config` prints for it. The ' +
      'shared one works only in a portal with one provider.',
  },
  FWA_CALL_MISMATCH: {
    status: 400,
    title: 'Headers name another call',
    action:
      'The client must send `Mcp-Method` and `Mcp-Name` as they are in the body, or neither (MCP 2026-07-28). ' +
      'Report it to the developer of the client.',
  },
  FWA_CALL_UNREADABLE: {
    status: 400,
    title: 'Call cannot be read for certain',
    action:
      'Send one JSON-RPC message of MCP in UTF-8, without what parsers read differently. The message says ' +
      'what that is, and where. The developer of the client can correct it.',
  },
  FWA_CLIENT_INVALID: {
    status: 400,
    title: 'Client is not acceptable',
    action:
      'Correct the client ID metadata document that the message names, or the client ID. The developer ' +
      'of the client can do so. The document is read again after 10 seconds.',
  },
  FWA_CLIENT_UNREACHABLE: {
    status: 502,
    title: 'Client metadata document cannot be read',
    action:
      'Open the client ID in a browser: it must answer with status 200, without a redirect, within 5 ' +
      'seconds. If it does, see the log for the cause, such as name resolution, TLS, or an address ' +
      'that is not public.',
  },
  FWA_CONDITION_HEADER: {
    status: 403,
    title: 'X-Forward-Auth-If is not supported',
    action:
      'Have the proxy remove the header X-Forward-Auth-If, and name a policy in the URL of the check: `?policy=<name>`.',
  },
  FWA_COOKIES_BLOCKED: {
    status: 400,
    title: 'Browser does not keep cookies',
    action:
      'Allow cookies for the host of the app and the sign-in host, and open the app in a window of its own rather ' +
      'than in a frame. If everybody sees this, the proxy does not pass on the `Set-Cookie` of the check: see ' +
      'the guide for it.',
  },
  FWA_COOKIE_DUPLICATE: {
    status: 400,
    title: 'Session cookie sent twice',
    action:
      'Delete the cookies of the domain in the browser. If it happens again, a site below the ' +
      'domain sets a cookie with the same name: find that site and move it to its own domain.',
  },
  FWA_FORBIDDEN: {
    status: 403,
    title: 'Access denied for this account',
    action: 'Sign in with an account that has access, or ask an administrator for access.',
  },
  FWA_HOST_RESERVED: {
    status: 403,
    title: 'Host is reserved for the sign-in pages',
    action:
      'Send checks to the address of forward-auth itself, and serve no app on `authHost`. An ' +
      'app that shares its host with the sign-in pages needs an entry in `domains` whose ' +
      '`domain` is that host.',
  },
  FWA_KEY_UNUSABLE: {
    status: 500,
    title: 'Session keys cannot be used',
    action:
      'Give each secret of `session.keys` at least 32 random characters, or make ' +
      '`storage.path` readable and writable for the service. If a secret in the database ' +
      'cannot be opened, add the key of `session.keys` that was removed last.',
  },
  FWA_LOGIN_UNKNOWN: {
    status: 400,
    title: 'Sign-in expired or started in another browser',
    action: 'Start again at `loginUrl` and allow cookies.',
  },
  FWA_MCP_SESSION_UNKNOWN: {
    status: 404,
    title: 'No such MCP session',
    action: 'The client must begin a new session, with `initialize` and without `Mcp-Session-Id`.',
  },
  FWA_NOT_FOUND: {
    status: 404,
    title: 'Nothing at this address',
    action:
      'Compare the URL with `portals` in the configuration, and with the `providers` and `resources` of the portal.',
  },
  FWA_NO_SESSION: {
    status: 401,
    title: 'Not signed in',
    action: 'Open `loginUrl` in a browser and sign in.',
  },
  FWA_OAUTH_INVALID: {
    status: 400,
    title: "This app's request is not valid",
    action:
      'Tell the developer of the app that sent the person here. Nothing was sent back to it; if its ' +
      'redirect URI is registered, the page has a link that tells it of the error.',
  },
  FWA_ORIGIN_FOREIGN: {
    status: 403,
    title: 'Request came from another origin',
    action: 'Open the page of the portal that has this form, and use it there.',
  },
  FWA_PEER_UNTRUSTED: {
    status: 403,
    title: 'Request did not come from a trusted proxy',
    action:
      'Add the address or host name of the proxy to `server.trustedProxies`. The log has the address.',
  },
  FWA_RATE_LIMITED: {
    status: 429,
    title: 'Too many attempts',
    action: 'Wait as long as `Retry-After` says, then try again.',
  },
  FWA_SESSION_TOO_LARGE: {
    status: 403,
    title: 'Session too large',
    action: 'Have the provider send fewer groups and claims, or request fewer scopes.',
  },
  FWA_SIGN_IN_LOOP: {
    status: 400,
    title: 'Redirect loop',
    action:
      'Have the proxy send the Cookie header with each check (Traefik: omit ' +
      '`authRequestHeaders`, or list Cookie in it). If it does, delete the cookies of the ' +
      'domain in the browser, and allow cookies.',
  },
  FWA_SIGN_IN_POLICY: {
    status: 400,
    title: 'Sign-in link names an unknown policy',
    action: 'Open the app again to get a new link.',
  },
  FWA_STEP_UP_REQUIRED: {
    status: 401,
    title: 'New sign-in required',
    action:
      'Open `loginUrl` in a browser and sign in. A program gets a new token with the `acr_values` and `max_age` of the challenge.',
  },
  FWA_TOKEN_INVALID: {
    status: 401,
    title: 'Invalid session token',
    action:
      'Send one `Authorization: Bearer <session token>` header, with the complete, unchanged token of a session at this portal.',
  },
  FWA_TOOL_REFUSED: {
    status: 403,
    title: 'No rule allows this call',
    action:
      'A rule names MCP tools here, so a request passes only if such a rule fits it for certain. ' +
      'Name the tool in a rule, or send the headers of MCP 2026-07-28 once each, and none of a session.',
  },
  FWA_UPSTREAM_FAILED: {
    status: 502,
    title: 'MCP server failed',
    action:
      'See the log for the cause: the server of the `upstream` cannot be reached, or answers with a redirect, a 401, a 403 or an encoding.',
  },
} as const satisfies Record<`FWA_${string}`, { status: number; title: string; action: string }>

/** The HTTP status of each error that clients may see, including those of packages. */
export const STATUS_OF: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Object.entries(FWA_ERRORS).map(([code, { status }]) => [code, status])),
  FWA_HEADER_ALIAS: 400,
  FWA_HEADER_INVALID: 400,
  FWA_HOST_UNKNOWN: 403,
  FWA_IDENTITY_UNSENDABLE: 403,
  FWA_PARAMETER_UNKNOWN: 400,
  FWA_POLICY_UNKNOWN: 403,
  FWA_CLIENT_ASSERTION: 502,
  FWA_CLIENT_REFUSED: 502,
  FWA_LOGIN_REFUSED: 403,
  FWA_LOGOUT_TOKEN: 400,
  FWA_PROVIDER_INVALID: 502,
  FWA_PROVIDER_UNREACHABLE: 503,
  FWA_REQUEST_REFUSED: 502,
  FWA_STEP_UP_UNMET: 403,
  PROFILE_CONDITION_INVALID: 400,
  ...Object.fromEntries(Object.keys(STORE_ERRORS).map((code) => [code, 503])),
}

/** The errors of forward-auth and of its packages by code. */
export const ERRORS = { ...GATE_ERRORS, ...PROVIDER_ERRORS, ...STORE_ERRORS, ...FWA_ERRORS }

export type FwaErrorCode = keyof typeof ERRORS

/** An error of forward-auth. Clients may see `code` and `message`; `cause` is only logged. */
export class FwaError extends TitledError<FwaErrorCode> {
  override readonly name: string = 'FwaError'

  constructor(code: FwaErrorCode, message: string, options?: TitledErrorOptions) {
    super(ERRORS, code, message, options)
  }
}

/** Whether an error is one of forward-auth or of its store. */
export function isOwn(error: unknown): error is FwaError {
  return error instanceof FwaError || error instanceof StoreError
}
