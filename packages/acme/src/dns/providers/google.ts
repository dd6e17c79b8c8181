import { parseJson } from '@gatehouse/net'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { bearer, createApi, form, json, readAs, reasonIn, type TokenRequest } from './api.ts'
import { type CreateDnsProvider, defineOptions, findZone, Option, TTL_SECONDS } from './provider.ts'
import { createRecordSetProvider } from './record-set.ts'

export const GoogleSchema = defineOptions('google', {
  project: Option.Text('Project of the zones.', { pattern: '^[0-9a-z:.-]{1,100}$' }),
  serviceAccount: Type.Optional(
    Option.Secret('Key of a service account, JSON. Default: the service account of the machine.'),
  ),
  endpoint: Option.Endpoint('https://dns.googleapis.com'),
  metadataEndpoint: Option.Text('URL of the metadata service, which gives machines their tokens.', {
    default: 'http://metadata.google.internal',
  }),
})

type GoogleConfig = Static<typeof GoogleSchema>

const API = 'Google Cloud DNS'
const SCOPE = 'https://www.googleapis.com/auth/ndev.clouddns.readwrite'
const TOKEN_SECONDS = 3600

const ServiceAccountSchema = Type.Object({
  client_email: Type.String({ minLength: 1 }),
  private_key: Type.String({ minLength: 1 }),
  private_key_id: Type.Optional(Type.String()),
  token_uri: Type.String({ minLength: 1 }),
})
type ServiceAccount = Static<typeof ServiceAccountSchema>
const ZoneSchema = Type.Object({
  name: Type.String({ pattern: '^[a-z0-9-]{1,63}$' }),
  dnsName: Type.String(),
  visibility: Type.Optional(Type.String()),
})
const ZonesSchema = Type.Object({ managedZones: Type.Optional(Type.Array(ZoneSchema)) })
const RecordSetSchema = Type.Object({
  name: Type.String(),
  type: Type.String(),
  ttl: Type.Optional(Type.Integer()),
  rrdatas: Type.Optional(Type.Array(Type.String())),
})
const RecordSetsSchema = Type.Object({ rrsets: Type.Optional(Type.Array(RecordSetSchema)) })
const ChangeSchema = Type.Object({
  id: Type.String({ pattern: '^[0-9A-Za-z_-]{1,64}$' }),
  status: Type.Enum(['pending', 'done']),
})
const reason = reasonIn(
  Type.Object({ error: Type.Object({ message: Type.String() }) }),
  ({ error }) => error.message,
)

/**
 * Google Cloud DNS. A change deletes exactly the record set that was read and adds the new one; it
 * fails as a whole if the record set is another by then.
 */
export const createGoogle: CreateDnsProvider<typeof GoogleSchema> = (config, deps) => {
  const authorize = bearer(() => tokenRequest(config, deps.clock.now()), deps)
  const { endpoint, project } = config
  const api = createApi({ name: API, endpoint, fetch: deps.fetch, authorize, reason })
  const zones = `/dns/v1/projects/${project}/managedZones`

  async function read(name: string, signal: AbortSignal) {
    const zone = `${zones}/${await findZoneName(name, signal)}`
    const query = `?name=${encodeURIComponent(name)}.&type=TXT`
    const { rrsets = [] } = await api.read(RecordSetsSchema, `${zone}/rrsets${query}`, { signal })
    const recordSet = rrsets.find((set) => set.name === `${name}.` && set.type === 'TXT')
    const { rrdatas: current = [], ttl = TTL_SECONDS } = recordSet ?? {}
    const setOf = (rrdatas: readonly string[]) =>
      rrdatas.length === 0 ? [] : [{ name: `${name}.`, type: 'TXT', ttl, rrdatas }]
    const replace = (values: readonly string[]) =>
      submit(`${zone}/changes`, { deletions: setOf(current), additions: setOf(values) }, signal)
    return { values: current, replace }
  }

  async function findZoneName(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const response = await api.read(ZonesSchema, `${zones}?dnsName=${zone}.`, { signal })
      return response.managedZones?.find(
        ({ dnsName, visibility }) => dnsName === `${zone}.` && visibility !== 'private',
      )?.name
    })
  }

  async function submit(changes: string, change: object, signal: AbortSignal) {
    const accept = [200, 404, 409, 412]
    const request = { content: json(change), accept, signal }
    const submitted = await api.find(ChangeSchema, changes, request)
    if (!submitted) return { conflict: 'the record set was changed by another' }
    const read = () => api.read(ChangeSchema, `${changes}/${submitted.id}`, { signal })
    return submitted.status === 'done'
      ? {}
      : { isDone: async () => (await read()).status === 'done' }
  }

  return createRecordSetProvider({ name: API, read }, deps)
}

/** Uses the key of a service account (RFC 7523) or, without one, the metadata service of the machine. */
async function tokenRequest(
  { serviceAccount, metadataEndpoint }: GoogleConfig,
  now: number,
): Promise<TokenRequest> {
  if (serviceAccount === undefined)
    return {
      name: 'the metadata service of the machine',
      endpoint: new URL('/computeMetadata/v1', metadataEndpoint),
      path: '/instance/service-accounts/default/token',
      headers: { 'metadata-flavor': 'Google' },
    }
  const name = 'the key of the service account'
  const key = readAs(name, ServiceAccountSchema, parseJson(serviceAccount))
  const content = form({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: await signAssertion(key, Math.floor(now / 1_000)),
  })
  return { name: 'Google', endpoint: key.token_uri, path: '', content }
}

async function signAssertion(account: ServiceAccount, now: number): Promise<string> {
  const { client_email: iss, private_key_id: kid, private_key: key, token_uri: aud } = account
  // Imported on first use, as few installations need it.
  const { createSigner } = (await import('fast-jwt')).default
  try {
    const sign = createSigner({ key, algorithm: 'RS256', ...(kid !== undefined && { kid }) })
    return sign({ iss, scope: SCOPE, aud, iat: now, exp: now + TOKEN_SECONDS })
  } catch {
    // The error may quote the key, so it is not passed on as the cause.
    throw new AcmeError('ACME_DNS_CREDENTIALS', 'the key of the service account cannot be read')
  }
}
