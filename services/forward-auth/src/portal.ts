import type { Condition, Profile } from '@gatehouse/profile'
import type { Provider } from './providers/provider.ts'
import type { Session } from './session/session.ts'

/** A door with a name: who vouches for people here, who may in, and what the apps behind it learn. */
export interface Portal {
  readonly name: string
  /** What pages call it. */
  readonly title: string
  /** CSS colour of its pages. */
  readonly accent: string
  /** By name, in the order in which the chooser lists them. */
  readonly providers: ReadonlyMap<string, Provider>
  /** Whether somebody may in at all; asked at login and again at every check. */
  readonly admits: (profile: Profile) => boolean
  /** Conditions that routes name. */
  readonly policies: ReadonlyMap<string, Condition>
  /** Whether `X-Forward-Auth-If` is read; if not, a request that brings it is denied. */
  readonly conditionHeader: boolean
  /** What an app learns, each sent with every 200. */
  readonly headers: readonly IdentityHeader[]
  /** Header that passes the session token to the app. */
  readonly tokenHeader: string | undefined
  /** Whether CORS preflights without credentials pass. */
  readonly preflight: boolean
  /** Milliseconds from login to the end of the session, whatever happens in between. */
  readonly sessionLifetime: number
  /** Milliseconds in which a login has to be finished. */
  readonly loginLifetime: number
  /** Whether the provider is given the redirect URI that providers shared in earlier versions. */
  readonly sharedCallback: boolean
  /** Whether the chooser is shown although there is only one provider. */
  readonly alwaysShowProviders: boolean
}

/** One header to the app. */
export interface IdentityHeader {
  /** In lower case. */
  readonly name: string
  /** Encoded for the wire; '' if there is none. */
  readonly value: (session: Session) => string
}

/** A cookie domain of the configuration, and where its sign-in pages are. */
export interface Site {
  /** Registrable or parent domain whose hosts share the session, canonical, such as `example.com`. */
  readonly domain: string
  /** Origin of the sign-in pages, such as `https://auth.example.com`; on the domain or below it. */
  readonly authOrigin: string
  /** Path under which all routes are, such as `/gate`; '' for none. */
  readonly basePath: string
}

/** The absolute URL of a portal's page, such as `/signin`; '' is the portal itself. */
export function portalUrl(
  { authOrigin, basePath }: Site,
  { name }: Pick<Portal, 'name'>,
  path: string,
): string {
  return `${authOrigin}${basePath}/portals/${name}${path}`
}
