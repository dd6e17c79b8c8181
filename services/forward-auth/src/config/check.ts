import { isIP } from 'node:net'
import { parseCidr, parseHost } from '@gatehouse/net'
import { compileAllow, createConditions } from '@gatehouse/profile'
import { type Fault, faultOf } from '@gatehouse/service-kit'
import { ANY_POLICY } from '../check/condition.ts'
import { READ_HEADERS } from '../forwarded/read.ts'
import { checkProvider, isPublic } from '../providers/index.ts'
import { isUnder } from '../sites.ts'
import { headerRows } from './headers.ts'
import type { ForwardAuthConfig, PortalConfig } from './schema.ts'
import { readSite } from './sites.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const DAY = 1_440 * MINUTE

/** The faults of a configuration that its schema cannot tell. */
export function checkConfig(config: ForwardAuthConfig): readonly Fault[] {
  return [
    ...checkTrustedProxies(config),
    ...checkDomains(config),
    ...checkSpan('/session/lifetime', config.session.lifetime, MINUTE, 90 * DAY, '1m to 90d'),
    ...checkUnique('/portals', config.portals),
    ...config.portals.flatMap((portal, index) => checkPortal(config, portal, `/portals/${index}`)),
  ]
}

function checkTrustedProxies({ server }: ForwardAuthConfig): Fault[] {
  return (server.trustedProxies ?? []).flatMap((text, index) =>
    parseCidr(text)
      ? []
      : [
          {
            path: `/server/trustedProxies/${index}`,
            message:
              isIP(text.split('/')[0] ?? '') === 0
                ? 'is not an IP address or network, such as 10.0.0.0/8'
                : 'is not a network: the bits behind the prefix must be zero',
          },
        ],
  )
}

function checkDomains({ domains, server }: ForwardAuthConfig): Fault[] {
  return domains.flatMap((row, index): Fault[] => {
    const site = readSite(row, server.basePath)
    if ('message' in site) return [{ path: `/domains/${index}/${site.key}`, message: site.message }]
    const own = parseHost(row.domain)
    const other = domains.find(
      ({ domain }, at) => at !== index && own && isUnder(parseHost(domain)?.name ?? '', own),
    )
    if (!other) return []
    return [{ path: `/domains/${index}/domain`, message: `is covered by ${other.domain}` }]
  })
}

function checkPortal(config: ForwardAuthConfig, portal: PortalConfig, path: string): Fault[] {
  const { sessionLifetime = MINUTE, loginLifetime } = portal
  return [
    ...checkSpan(`${path}/sessionLifetime`, sessionLifetime, MINUTE, 90 * DAY, '1m to 90d'),
    ...checkSpan(`${path}/loginLifetime`, loginLifetime, 30 * SECOND, 60 * MINUTE, '30s to 1h'),
    ...checkUnique(`${path}/providers`, portal.providers),
    ...checkProviders(config, portal, `${path}/providers`),
    ...checkCallback(portal, `${path}/sharedCallback`),
    ...checkPolicies(portal, `${path}/policies`),
    ...checkAllow(portal.allow, `${path}/allow`),
    ...checkHeaders(portal, path),
  ]
}

function checkProviders(
  { server }: ForwardAuthConfig,
  portal: PortalConfig,
  path: string,
): Fault[] {
  return portal.providers.flatMap((provider, index): Fault[] => {
    const faults = [
      ...checkAllow(provider.allow, `${path}/${index}/allow`),
      ...checkProvider(provider).map(({ path: at, message }) => ({
        path: `${path}/${index}${at}`,
        message,
      })),
    ]
    if (isPublic(provider) && provider.allow === undefined && portal.allow === undefined)
      faults.push({
        path: `${path}/${index}`,
        message:
          'lets anyone make an account there: say who may in with `allow`, or `allow: anyone`',
      })
    if (provider.type === 'tailscaleWhois' && server.trustedProxies === undefined)
      faults.push({
        path: `${path}/${index}/type`,
        message: 'needs server.trustedProxies, since it goes by the address of the client',
      })
    return faults
  })
}

function checkCallback({ sharedCallback, providers }: PortalConfig, path: string): Fault[] {
  const redirecting = providers.filter(({ type }) => type !== 'tailscaleWhois')
  if (!sharedCallback || redirecting.length <= 1) return []
  return [
    { path, message: 'cannot be with several providers: nothing would tell their answers apart' },
  ]
}

function checkPolicies({ policies }: PortalConfig, path: string): Fault[] {
  return Object.entries(policies).flatMap(([name, source]) =>
    name === ANY_POLICY
      ? [{ path: `${path}/${name}`, message: 'is built in: it is whoever the portal allows' }]
      : faultOf(`${path}/${name}`, () => createConditions().compile(source)),
  )
}

function checkAllow(allow: PortalConfig['allow'], path: string): Fault[] {
  return allow === undefined ? [] : faultOf(path, () => compileAllow(allow, createConditions()))
}

const HEADER_NAME = /^[A-Za-z][A-Za-z0-9-]{0,126}$/
/** Headers that frame the answer, steer caches or hops, or that checks themselves read. */
const RESERVED: ReadonlySet<string> = new Set([
  ...READ_HEADERS,
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'host'],
  ...['proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'www-authenticate'],
  ...['cookie', 'set-cookie', 'location', 'cache-control', 'date', 'vary', 'x-auth-redirect'],
  ...['content-length', 'content-type', 'content-encoding', 'content-security-policy'],
])

function checkHeaders({ headers, tokenHeader }: PortalConfig, path: string): Fault[] {
  const list = [headers].flat().flatMap((entry, index) => {
    const at = Array.isArray(headers) ? `${path}/headers/${index}` : `${path}/headers`
    const own = typeof entry === 'object' ? `${at}/name` : at
    return headerRows([entry]).map(({ name }) => ({ name, path: own }))
  })
  const all =
    tokenHeader === undefined ? list : [...list, { name: tokenHeader, path: `${path}/tokenHeader` }]
  return all.flatMap(({ name, path }, index): Fault[] => {
    const lower = name.toLowerCase()
    if (!HEADER_NAME.test(name))
      return [{ path, message: 'is not a header name of letters, digits and hyphens' }]
    if (RESERVED.has(lower))
      return [{ path, message: `cannot be used: ${lower} has its own meaning` }]
    const isTwice = all.findIndex((other) => other.name.toLowerCase() === lower) < index
    return isTwice ? [{ path, message: `sends ${lower} a second time` }] : []
  })
}

function checkUnique(path: string, rows: readonly { readonly name: string }[]): Fault[] {
  return rows.flatMap(({ name }, index) =>
    rows.findIndex((other) => other.name === name) < index
      ? [{ path: `${path}/${index}/name`, message: `is the name of another one: ${name}` }]
      : [],
  )
}

function checkSpan(path: string, ms: number, min: number, max: number, span: string): Fault[] {
  return ms < min || ms > max ? [{ path, message: `must be from ${span}` }] : []
}
