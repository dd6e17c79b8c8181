import { type Cidr, cidrContains, type FetchAnswer, parseCidr, parseIp } from '@gatehouse/net'
import { type Claims, fromClaims } from '@gatehouse/profile'
import { type ConfigOf, FilePath } from '@gatehouse/service-kit'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { Agent } from 'undici'
import { parseJson } from './ask.ts'
import type { ProviderDeps } from './deps.ts'
import { isOutage, toFwaError } from './failure.ts'
import { commonOptions } from './options.ts'
import { present } from './present.ts'
import type { SeamlessProvider } from './provider.ts'

/** Where the addresses of a tailnet lie. */
const TAILNET_ADDRESSES = ['100.64.0.0/10', 'fd7a:115c:a1e0::/48'].map(
  (text) => parseCidr(text) as Cidr,
)

export const TailscaleWhoisSchema = Type.Object({
  type: Type.Literal('tailscaleWhois'),
  ...commonOptions,
  socket: FilePath({
    default: '/var/run/tailscale/tailscaled.sock',
    description: 'Socket of the Tailscale daemon.',
  }),
  tailnet: Type.Optional(
    Type.String({
      pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)+$',
      description:
        'Domain that the devices must belong to, such as `tail1234.ts.net`. Default: also devices shared from elsewhere.',
    }),
  ),
  capabilities: Type.Array(Type.String({ pattern: '^[!-~]+$' }), {
    default: [],
    description:
      'Capabilities granted in the tailnet policy that become claims: `acme.com/cap/wiki` the claim `https://acme.com/cap/wiki`.',
  }),
  taggedDevices: Type.Boolean({
    default: false,
    description:
      'Whether devices with tags, which belong to nobody, may come too; tags are groups.',
  }),
})

type Options = ConfigOf<typeof TailscaleWhoisSchema>

const Text = Type.Optional(Type.String())
/** The answer of `localapi/v0/whois`. */
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

/** Who uses the device in the tailnet that a request comes from, as the local daemon knows. */
export function createTailscaleWhois(options: Options, deps: ProviderDeps): SeamlessProvider {
  const { name, socket, timeout } = options
  const shown = present(options)
  const dispatcher = new Agent({ connect: { socketPath: socket } })
  const fetch = deps.createFetch({ dispatcher, timeoutMs: timeout })
  let isFailing = false

  async function ask(ip: string): Promise<Whois | undefined> {
    const url = new URL('http://local-tailscaled.sock/localapi/v0/whois')
    url.searchParams.set('addr', ip.includes(':') ? `[${ip}]:1` : `${ip}:1`)
    const answer = await fetch(url, { status: [200, 404] })
    return answer.status === 200 ? readWhois(answer) : undefined
  }

  return {
    ...shown,
    type: 'seamless',
    isPublic: false,
    failing: () => isFailing,
    async identify(clientIp) {
      const ip = tailnetAddress(clientIp)
      if (ip === undefined) return undefined
      try {
        const whois = await ask(ip)
        isFailing = false
        const claims = whois && readClaims(whois, ip, options)
        return claims && fromClaims(name, claims)
      } catch (error) {
        isFailing = isOutage(error)
        throw toFwaError(shown.title, error)
      }
    },
    fits: ({ claims }, clientIp) => {
      const ip = tailnetAddress(clientIp)
      return ip !== undefined && claims.ip === ip
    },
    close: () => fetch.close(),
  }
}

function tailnetAddress(text: string): string | undefined {
  const ip = parseIp(text)
  return ip && TAILNET_ADDRESSES.some((range) => cidrContains(range, ip)) ? ip.text : undefined
}

function readWhois({ body }: FetchAnswer): Whois {
  const whois = parseJson(body)
  if (Check(WhoisSchema, whois)) return whois
  throw new Error('whois was not answered as documented')
}

/** The claims of who may come, and undefined for who may not. */
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
    // Neither a login name nor a host name: both can change hands.
    ...(isTagged ? { sub: `node:${node.StableID}`, name: hostname, groups: tags } : person(user)),
    ...{ ip, hostname, tailnet: domain.join('.'), taggedDevice: isTagged },
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
