import { type CurableMistake, PROXIES, type ProxyName } from '@gatehouse/service-kit/proxies'

/** The faults of a proxy: those that a line cures, and those that none does. */
export type Mistake =
  | CurableMistake
  | 'untrusted'
  | 'assertion'
  | 'sign-out'
  | 'signed-in'
  | 'hangs'
  | 'auth-cookies'
  | 'open'
  | 'other'

/** The line to look at; undefined if the finding says all there is. */
export function remedyFor(mistake: Mistake, proxy: ProxyName | undefined): string | undefined {
  if (mistake === 'untrusted') return 'server.trustedProxies in the configuration of forward-auth'
  if (mistake === 'sign-out')
    return 'the guide of the provider: where people return to after signing out'
  if (mistake === 'auth-cookies')
    return 'the lines for the host of the sign-in pages: Cookie and Set-Cookie have to pass'
  if (mistake === 'assertion')
    return 'assertion.hosts of the portal: add the host of the app; and audience in the app'
  return proxy && PROXIES[proxy].remedies[mistake]
}
