import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import {
  type ApiRequest,
  cacheToken,
  call,
  callJson,
  endpointUrl,
  oauthError,
  parseJson,
  readAs,
  readReason,
  type Token,
  TokenSchema,
} from './api.ts'
import {
  commonOptions,
  type DnsProvider,
  type DnsProviderDeps,
  Endpoint,
  findZone,
  Secret,
  Text,
  TTL_SECONDS,
} from './provider.ts'
import {
  awaitChange,
  createRecordSetProvider,
  type RecordSet,
  type RecordSetApi,
} from './record-set.ts'

export const GoogleSchema = Type.Object({
  type: Type.Literal('google'),
  ...commonOptions,
  project: Text('Project of the zones.', { pattern: '^[0-9a-z:.-]{1,100}$' }),
  serviceAccount: Type.Optional(
    Secret('Key of a service account, JSON. Default: the service account of the machine.'),
  ),
  endpoint: Endpoint('https://dns.googleapis.com'),
  metadataEndpoint: Text('URL of the metadata service, which gives machines their tokens.', {
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
const ZonesSchema = Type.Object({
  managedZones: Type.Optional(
    Type.Array(
      Type.Object({
        name: Type.String({ pattern: '^[a-z0-9-]{1,63}$' }),
        dnsName: Type.String(),
        visibility: Type.Optional(Type.String()),
      }),
    ),
  ),
})
const RecordSetsSchema = Type.Object({
  rrsets: Type.Optional(
    Type.Array(
      Type.Object({
        name: Type.String(),
        type: Type.String(),
        ttl: Type.Optional(Type.Integer()),
        rrdatas: Type.Optional(Type.Array(Type.String())),
      }),
    ),
  ),
})
const ChangeSchema = Type.Object({
  id: Type.String({ pattern: '^[0-9A-Za-z_-]{1,64}$' }),
  status: Type.Enum(['pending', 'done']),
})

interface State {
  readonly zone: string
  readonly ttl: number
}

/**
 * Google Cloud DNS. A change deletes exactly the record set that was read and adds the new one; it
 * fails as a whole if the record set is another by then.
 */
class Google implements RecordSetApi<State> {
  readonly #config: GoogleConfig
  readonly #deps: DnsProviderDeps
  readonly #token: (signal: AbortSignal) => Promise<string>

  constructor(config: GoogleConfig, deps: DnsProviderDeps) {
    this.#config = config
    this.#deps = deps
    this.#token = cacheToken((signal) => requestToken(config, deps, signal), deps.clock)
  }

  format(value: string): string {
    return `"${value}"`
  }

  async read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const zone = await this.#findZone(name, signal)
    const path = `/managedZones/${zone}/rrsets?name=${encodeURIComponent(name)}.&type=TXT`
    const { body } = await this.#request(path, {}, signal)
    const { rrsets = [] } = readAs(API, RecordSetsSchema, parseJson(body))
    const own = rrsets.find((set) => set.name === `${name}.` && set.type === 'TXT')
    return { values: own?.rrdatas ?? [], state: { zone, ttl: own?.ttl ?? TTL_SECONDS } }
  }

  async write(
    name: string,
    { values: before, state: { zone, ttl } }: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const setOf = (rrdatas: readonly string[]) =>
      rrdatas.length === 0 ? [] : [{ name: `${name}.`, type: 'TXT', ttl, rrdatas }]
    const path = `/managedZones/${zone}/changes`
    const body = JSON.stringify({ deletions: setOf(before), additions: setOf(values) })
    const accept = [200, 404, 409, 412]
    const answer = await this.#request(path, { body, accept }, signal)
    if (answer.status !== 200) return 'the record set was changed by another'
    const { id, status } = readAs(API, ChangeSchema, parseJson(answer.body))
    const isDone = async () => {
      const { body } = await this.#request(`${path}/${id}`, {}, signal)
      return readAs(API, ChangeSchema, parseJson(body)).status === 'done'
    }
    if (values.length > before.length && status === 'pending')
      await awaitChange(API, isDone, { clock: this.#deps.clock, signal })
    return undefined
  }

  async #findZone(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const { body } = await this.#request(`/managedZones?dnsName=${zone}.`, {}, signal)
      const { managedZones = [] } = readAs(API, ZonesSchema, parseJson(body))
      return managedZones.find(
        ({ dnsName, visibility }) => dnsName === `${zone}.` && visibility !== 'private',
      )?.name
    })
  }

  async #request(path: string, init: Pick<ApiRequest, 'body' | 'accept'>, signal: AbortSignal) {
    const { endpoint, project } = this.#config
    const url = endpointUrl(endpoint, `/dns/v1/projects/${project}${path}`)
    const headers = {
      accept: 'application/json',
      authorization: `Bearer ${await this.#token(signal)}`,
      ...(init.body !== undefined && { 'content-type': 'application/json' }),
    }
    const method = init.body === undefined ? 'GET' : 'POST'
    return await call(this.#deps.fetch, { api: API, url, method, headers, signal, reason, ...init })
  }
}

export const createGoogle = (config: GoogleConfig, deps: DnsProviderDeps): DnsProvider =>
  createRecordSetProvider(new Google(config, deps), deps.clock)

/** Uses the key of a service account (RFC 7523) or, without one, the metadata service of the machine. */
async function requestToken(
  { serviceAccount, metadataEndpoint }: GoogleConfig,
  { fetch, clock }: DnsProviderDeps,
  signal: AbortSignal,
): Promise<Token> {
  if (serviceAccount === undefined)
    return await callJson(fetch, TokenSchema, {
      api: 'the metadata service of the machine',
      url: new URL('/computeMetadata/v1/instance/service-accounts/default/token', metadataEndpoint),
      headers: { 'metadata-flavor': 'Google' },
      signal,
    })
  const key = readAs(
    'the key of the service account',
    ServiceAccountSchema,
    parseJson(serviceAccount),
  )
  return await callJson(fetch, TokenSchema, {
    api: 'Google',
    url: endpointUrl(key.token_uri, ''),
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: await signAssertion(key, Math.floor(clock.now() / 1_000)),
    }).toString(),
    signal,
    reason: oauthError,
  })
}

async function signAssertion(
  { client_email: iss, private_key_id: kid, private_key: key, token_uri: aud }: ServiceAccount,
  now: number,
): Promise<string> {
  // Imported on first use, as few installations need it.
  const {
    default: { createSigner },
  } = await import('fast-jwt')
  try {
    const sign = createSigner({ key, algorithm: 'RS256', ...(kid !== undefined && { kid }) })
    return sign({ iss, scope: SCOPE, aud, iat: now, exp: now + TOKEN_SECONDS })
  } catch {
    // The error may quote the key, so it is not passed on as the cause.
    throw new AcmeError('ACME_DNS_CREDENTIALS', 'the key of the service account cannot be read')
  }
}

const RefusalSchema = Type.Object({ error: Type.Object({ message: Type.String() }) })
const reason = (body: Buffer) =>
  readReason(parseJson(body), RefusalSchema, ({ error }) => error.message)
