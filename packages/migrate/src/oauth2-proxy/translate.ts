import { parseHost } from '@gatehouse/net'
import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { PORTAL, PROVIDER } from '../forward-auth/access.ts'
import {
  boundedDuration,
  isOn,
  ONLY_HERE,
  readAddress,
  redirectStep,
  refuseAll,
  setAllow,
  setClientSecret,
  setDomains,
  shortened,
  trustEmail,
} from '../forward-auth/settings.ts'
import { type Given, type GivenSetting, plainUrl } from '../given.ts'
import { words } from '../table.ts'
import { readAccess, setOpenRules } from './access.ts'

/** Our kind of provider for theirs. The others have no counterpart. */
const TYPES: Readonly<Record<string, string>> = {
  oidc: 'openIDConnect',
  adfs: 'openIDConnect',
  keycloak: 'openIDConnect',
  'keycloak-oidc': 'openIDConnect',
  azure: 'microsoftEntraID',
  'entra-id': 'microsoftEntraID',
  google: 'google',
  github: 'github',
  gitlab: 'gitlab',
}
/** Providers that take the user principal name of people without an address. */
const BY_UPN = ['adfs', 'azure']
const ENTRA = /^(https:\/\/[^/]+)\/([0-9a-f-]{36})\/v2\.0\/?$/i

/** Translates the settings of oauth2-proxy. */
export const translateOauth2Proxy: Translate = (given, draft, readFile) => {
  const provider = given.take('provider')
  const theirs = provider?.values[0] ?? 'google'
  const type = TYPES[theirs]
  setServer(given, draft)
  setSession(given, draft)
  const authHost = setHosts(given, draft)
  draft.set([...PORTAL, 'name'], 'main')
  setProvider(given, draft, theirs, provider)
  const found = readAccess(given, draft, theirs, readFile)
  if (typeof found === 'string') refuseAll(draft, found)
  else {
    setAllow(draft, found.access, found.sources)
    if (BY_UPN.includes(theirs))
      draft.comment(
        [...PORTAL, 'allow'],
        'For people without a claim email, upn counted before: send email, or read claims["upn"] in a condition.',
      )
    if (found.isForAll)
      draft.comment([...PORTAL, 'allow'], 'Everybody with an account at the provider, as before.')
  }
  setHeaders(given, draft, theirs)
  setOpenRules(given, draft)
  draft.copy([...PORTAL, 'preflight'], given.ifOn('skip-auth-preflight'), () => true)
  const name = nameOf(theirs)
  return [
    ...(type === undefined ? [`Find an OpenID Connect provider in place of ${theirs}.`] : []),
    redirectStep(authHost, name),
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    'If oauth2-proxy keeps running on this machine for now, change server.port, for example to 4181.',
    'Have your proxy ask /portals/main, or /portals/main/authz/nginx from nginx, in place of /oauth2/auth.',
  ]
}

const nameOf = (theirs: string) =>
  theirs.replaceAll(/[^a-z0-9-]/g, '-').replace(/^[^a-z]+/, '') || 'corp'

function setServer(given: Given, draft: Draft): void {
  const cert = given.take('tls-cert-file')
  const key = given.take('tls-key-file')
  const plain = given.take('http-address')
  const tls = given.take('https-address')
  // With a certificate it only listens on the second address.
  const address = cert ? tls : plain
  const at = readAddress(address)
  draft.set(['server', 'host'], at?.host ?? (cert ? '0.0.0.0' : '127.0.0.1'), at && address)
  draft.set(['server', 'port'], at?.port ?? (cert ? 443 : 4180), at && address)
  if (address && !at) draft.remark(address, 'is no address of TCP; the default is set')
  if (cert) {
    draft.copy(['server', 'tls', 'certFile'], cert)
    draft.copy(['server', 'tls', 'keyFile'], key)
  }
  setTrustedProxies(given, draft)
  const metrics = given.take('metrics-address')
  const metricsAt = readAddress(metrics)
  draft.set(['metrics', 'host'], metricsAt?.host, metrics)
  draft.set(['metrics', 'port'], metricsAt?.port, metrics)
}

function setTrustedProxies(given: Given, draft: Draft): void {
  const proxies = given.take('trusted-proxy-ip')
  // Everybody cannot be trusted.
  const narrow = proxies?.values.filter((text) => !/\/[0-6]$/.test(text)) ?? []
  if (narrow.length > 0) draft.set(['server', 'trustedProxies'], narrow, proxies)
  else draft.comment(['server'], ONLY_HERE)
  if (proxies && narrow.length < proxies.values.length)
    draft.remark(
      proxies,
      'trusts nearly everybody, which is left out; list the addresses of the proxy',
    )
}

function setSession(given: Given, draft: Draft): void {
  const expire = given.take('cookie-expire')
  draft.copy(['session', 'lifetime'], expire, boundedDuration, '168h')
  if (expire && !draft.has(['session', 'lifetime']))
    draft.remark(expire, 'is no duration of a session here; it lasts 8h, or session.lifetime')
}

/** The setting with a host of the sign-in pages that can be one. A path is completed by the request. */
function readRedirectHost(given: Given, draft: Draft): URL | undefined {
  const setting = given.take('redirect-url')
  const text = setting?.values[0] ?? ''
  const url = URL.parse(text)
  if (url && parseHost(url.hostname)) return url
  if (setting && !text.startsWith('/'))
    draft.remark(setting, 'names no host; give that of the sign-in pages as authHost of its domain')
  return undefined
}

const bare = (domain: string) => domain.replace(/^\*?\./, '').replace(/:[\d*]+$/, '')

/** @returns the host of the sign-in pages */
function setHosts(given: Given, draft: Draft): string | undefined {
  const url = readRedirectHost(given, draft)
  const domains = given.list('cookie-domain').map(bare)
  const allowed = given.list('whitelist-domain').map(bare)
  const host = url?.host || undefined
  const own = url?.hostname ? [url.hostname] : []
  const around = allowed.filter((domain) => own.every((one) => isOn(one, domain)))
  const found = [domains, around, own].find((list) => list.length > 0) ?? []
  setDomains(draft, found, host)
  for (const domain of found.length === 0 ? [] : allowed)
    if (!found.some((one) => isOn(domain, one)))
      draft.comment(['domains'], `People are not sent back to ${domain}: add it if it has apps.`)
  return host
}

function setProvider(given: Given, draft: Draft, theirs: string, from?: GivenSetting): void {
  const type = TYPES[theirs] ?? 'openIDConnect'
  const at = (key: string) => [...PROVIDER, key]
  draft.set(at('type'), type, from)
  draft.set(at('name'), nameOf(theirs))
  draft.copy(at('title'), given.take('provider-display-name'), shortened)
  setIssuer(given, draft, theirs)
  draft.copy(at('clientId'), given.take('client-id'))
  const token = given.ifOn('entra-id-federated-token-auth')
  if (token) draft.set(at('clientAssertion'), { type: 'azureWorkloadIdentity' }, token)
  else setClientSecret(given, draft, PROVIDER, ['client-secret', 'client-secret-file'])
  setParameters(given, draft, type)
  if (type !== 'openIDConnect' && type !== 'microsoftEntraID') return
  const groups = given.take('oidc-groups-claim')
  if (groups?.values[0] !== 'groups') draft.copy(at('groupsClaim'), groups)
  const trust = given.ifOn('insecure-oidc-allow-unverified-email')
  if (trust) draft.set(at('trustEmail'), true, trust)
  // Their older provider for Keycloak does not ask.
  else trustEmail(draft, theirs === 'keycloak' ? true : 'unlessFalse')
}

function setParameters(given: Given, draft: Draft, type: string): void {
  const scope = given.take('scope')
  if (scope && type === 'github') draft.remark(scope, 'GitHub needs none here')
  else draft.copy([...PROVIDER, 'scopes'], scope, words)
  for (const name of ['prompt', 'acr-values', 'resource'])
    draft.copy([...PROVIDER, 'authorizationParameters', name.replace('-', '_')], given.take(name))
  const ca = given.take('provider-ca-file')
  if (ca && ca.values.length > 1) draft.remark(ca, 'join the files into one, and set caFile to it')
  else draft.copy([...PROVIDER, 'caFile'], ca)
}

function setIssuer(given: Given, draft: Draft, theirs: string): void {
  const type = TYPES[theirs]
  const issuer = given.take('oidc-issuer-url')
  const url = plainUrl(issuer?.values[0] ?? '')
  if (type === 'google' || type === 'github') return
  if (type === 'microsoftEntraID') setTenant(given, draft, url, issuer)
  else if (type === 'gitlab') draft.set([...PROVIDER, 'url'], url, issuer)
  else setIssuerUrl(given, draft, theirs, issuer)
}

function setIssuerUrl(given: Given, draft: Draft, theirs: string, issuer?: GivenSetting): void {
  const url = plainUrl(issuer?.values[0] ?? '')
  const login = given.take('login-url')
  const realm = /^(https?:\/\/.+\/realms\/[^/]+)\/protocol\/openid-connect\/auth$/.exec(
    login?.values[0] ?? '',
  )?.[1]
  if (url === undefined && realm !== undefined)
    draft.set([...PROVIDER, 'issuerUrl'], plainUrl(realm), login)
  else draft.set([...PROVIDER, 'issuerUrl'], url, issuer)
  if (!draft.has([...PROVIDER, 'issuerUrl']))
    draft.todo(
      [...PROVIDER, 'type'],
      `issuerUrl is missing: give the issuer of an OpenID Connect provider in place of ${theirs}.`,
    )
}

function setTenant(given: Given, draft: Draft, url?: string, issuer?: GivenSetting): void {
  const tenant = given.take('azure-tenant')
  const [, authority, id] = ENTRA.exec(url ?? '') ?? []
  const own = id ?? tenant?.values[0]
  draft.set([...PROVIDER, 'tenantId'], own?.toLowerCase(), id === undefined ? tenant : issuer)
  if (authority !== undefined && authority !== 'https://login.microsoftonline.com')
    draft.set([...PROVIDER, 'authority'], authority, issuer)
  if (own === undefined)
    draft.todo(
      [...PROVIDER, 'type'],
      'tenantId is missing: a provider is for one tenant, by its ID.',
    )
}

/** Sets the headers for apps. Their user is the login name for GitHub, and the subject for the others. */
function setHeaders(given: Given, draft: Draft, theirs: string): void {
  const xauth = given.ifOn('set-xauthrequest')
  draft.copy([...PORTAL, 'headers'], xauth, () => 'x-auth-request-*')
  const prefer = given.ifOn('prefer-email-to-user')
  if (prefer) draft.set([...PORTAL, 'userHeader'], 'email', prefer)
  else if (theirs === 'github') draft.set([...PORTAL, 'userHeader'], 'username')
}
