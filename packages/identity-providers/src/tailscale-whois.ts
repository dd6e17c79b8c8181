import { type BoundedFetch, type Cidr, cidrContains, parseCidr, parseIp } from '@gatehouse/net'
import { type Claims, fromClaims } from '@gatehouse/profile'
import { FilePath, Flag } from '@gatehouse/service-kit/config'
import { type Static, Type } from 'typebox'
import { isOutage, toProviderError } from './failure.ts'
import { commonOptions } from './options.ts'
import type { ProviderKind } from './provider.ts'
import { readJson } from './request.ts'

const TAILNET_ADDRESSES = ['100.64.0.0/10', 'fd7a:115c:a1e0::/48'].map(
  (text) => parseCidr(text) as Cidr,
)

export const TailscaleWhoisSchema = Type.Object({
  type: Type.Literal('tailscaleWhois'),
  ...commonOptions,
  socket: FilePath('Socket of the Tailscale daemon.', {
    default: '/var/run/tailscale/tailscaled.sock',
  }),
  tailnet: Type.Optional(
    Type.String({
      pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)+$',
      description:
        'Domain that devices must belong to, such as `tail1234.ts.net`. Default: any, including devices shared from other tailnets.',
    }),
  ),
  capabilities: Type.Array(Type.String({ pattern: '^[!-~]+$' }), {
    default: [],
    description:
      'Capabilities of the tailnet policy to include as claims: `acme.com/cap/wiki` becomes the claim `https://acme.com/cap/wiki`.',
  }),
  taggedDevices: Flag('Admits tagged devices, which have no user. Their tags become groups.'),
})

type Options = Static<typeof TailscaleWhoisSchema>

const Text = Type.Optional(Type.String())
const WhoisSchema = Type.Object({
  Node: Type.Object({
    StableID: Type.String({ minLength: 1 }),
    Name: Type.String({ minLength: 1 }),
    Tags: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  }),
  UserProfile: Type.Object({
    ID: Type.Integer({ minimum: 1 }),
    LoginName: Text,
    DisplayName: Text,
    ProfilePicURL: Text,
  }),
  CapMap: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
})
type Whois = Static<typeof WhoisSchema>

/** Identifies the user of a device in a tailnet by its address, through the local Tailscale daemon. */
export const tailscaleWhois: ProviderKind<Options> = {
  title: 'Tailscale',
  icon: 'tailscale',
  create(options, deps) {
    const { name, title, socket, timeout } = options
    const fetch = deps.createFetch({ socketPath: socket, timeoutMs: timeout })
    let isFailing = false
    return {
      type: 'seamless',
      failing: () => isFailing,
      async identify(clientIp) {
        const ip = tailnetAddress(clientIp)
        if (ip === undefined) return undefined
        try {
          const whois = await lookUp(fetch, ip)
          isFailing = false
          const claims = whois && readClaims(whois, ip, options)
          return claims && fromClaims(name, claims)
        } catch (error) {
          isFailing = isOutage(error)
          throw toProviderError(title, error)
        }
      },
      fits({ claims }, clientIp) {
        const ip = tailnetAddress(clientIp)
        return ip !== undefined && claims.ip === ip
      },
      close: () => fetch.close(),
    }
  },
}

function tailnetAddress(text: string): string | undefined {
  const ip = parseIp(text)
  return ip && TAILNET_ADDRESSES.some((range) => cidrContains(range, ip)) ? ip.text : undefined
}

async function lookUp(fetch: BoundedFetch, ip: string): Promise<Whois | undefined> {
  const url = new URL('http://local-tailscaled.sock/localapi/v0/whois')
  url.searchParams.set('addr', ip.includes(':') ? `[${ip}]:1` : `${ip}:1`)
  const answer = await fetch(url, { status: [200, 404] })
  return answer.status === 200 ? readJson(answer, WhoisSchema, 'whois') : undefined
}

/** The claims of a person or device, or undefined if the configuration does not admit it. */
function readClaims(
  { Node: node, UserProfile: user, CapMap: granted }: Whois,
  ip: string,
  { tailnet, taggedDevices, capabilities }: Options,
): Claims | undefined {
  const [hostname, ...domain] = node.Name.toLowerCase().replace(/\.$/, '').split('.')
  if (tailnet !== undefined && domain.join('.') !== tailnet) return undefined
  const tags = node.Tags ?? []
  const isTagged = tags.length > 0
  if (isTagged && !taggedDevices) return undefined
  return {
    // Not the login name or the host name, which can be reassigned.
    ...(isTagged ? { sub: `node:${node.StableID}`, name: hostname, groups: tags } : person(user)),
    ip,
    hostname,
    tailnet: domain.join('.'),
    taggedDevice: isTagged,
    ...Object.fromEntries(
      capabilities
        .filter((capability) => Object.hasOwn(granted ?? {}, capability))
        .map((capability) => [`https://${capability}`, granted?.[capability]]),
    ),
  }
}

function person({ ID, LoginName, DisplayName, ProfilePicURL }: Whois['UserProfile']): Claims {
  return {
    sub: `user:${ID}`,
    preferred_username: LoginName,
    name: DisplayName,
    picture: ProfilePicURL,
  }
}
