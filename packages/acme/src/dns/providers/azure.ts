import { readFile } from 'node:fs/promises'
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
  FilePath,
  findZone,
  Secret,
  Text,
  TTL_SECONDS,
} from './provider.ts'
import { createRecordSetProvider, type RecordSet, type RecordSetApi } from './record-set.ts'

const Id = (description: string) => Text(description, { pattern: '^[0-9A-Za-z._()-]{1,128}$' })

export const AzureSchema = Type.Object({
  type: Type.Literal('azure'),
  ...commonOptions,
  subscriptionId: Id('Subscription of the zones.'),
  resourceGroup: Id('Resource group of the zones.'),
  tenantId: Type.Optional(Id('Tenant. Not for a managed identity.')),
  clientId: Type.Optional(
    Id('Client identifier. For a managed identity only if it is user-assigned.'),
  ),
  clientSecret: Type.Optional(Secret('Client secret.')),
  tokenPath: Type.Optional(
    FilePath(
      'File with the token of a workload identity, read for each request of an access token.',
    ),
  ),
  endpoint: Endpoint('https://management.azure.com'),
  authority: Text('URL of the authority that issues tokens.', {
    default: 'https://login.microsoftonline.com',
  }),
  metadataEndpoint: Text(
    'URL of the metadata service, which gives managed identities their tokens.',
    {
      default: 'http://169.254.169.254',
    },
  ),
})

type AzureConfig = Static<typeof AzureSchema>

const API = 'Azure DNS'
const VERSION = 'api-version=2018-05-01'
const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

const TextRecord = Type.Object({ value: Type.Array(Type.String()) })
const RecordSetSchema = Type.Object({
  etag: Type.String(),
  properties: Type.Object({
    TTL: Type.Integer(),
    metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
    TXTRecords: Type.Optional(Type.Array(TextRecord)),
  }),
})

interface State {
  readonly url: URL
  /** Properties of the record set that are written back unchanged. */
  readonly preserved: {
    readonly TTL: number
    readonly metadata?: Readonly<Record<string, string>>
  }
  /** Undefined if there is no record set yet. */
  readonly etag: string | undefined
}

type RequestInit = Omit<ApiRequest, 'api'> & { readonly signal: AbortSignal }

/** Azure DNS. The entity tag ensures that a record set is replaced only as it was read. */
class Azure implements RecordSetApi<State> {
  readonly #config: AzureConfig
  readonly #fetch: DnsProviderDeps['fetch']
  readonly #token: (signal: AbortSignal) => Promise<string>

  constructor(config: AzureConfig, { fetch, clock }: DnsProviderDeps) {
    this.#config = config
    this.#fetch = fetch
    this.#token = cacheToken((signal) => requestToken(config, fetch, signal), clock)
  }

  format(value: string): string {
    return JSON.stringify([value])
  }

  async read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const url = endpointUrl(this.#config.endpoint, await this.#findPath(name, signal))
    const { status, body } = await this.#request({ url, signal, accept: [200, 404] })
    if (status === 404)
      return { values: [], state: { url, preserved: { TTL: TTL_SECONDS }, etag: undefined } }
    const { etag, properties } = readAs(API, RecordSetSchema, parseJson(body))
    const { TXTRecords = [], TTL, metadata } = properties
    const values = TXTRecords.map(({ value }) => JSON.stringify(value))
    return { values, state: { url, preserved: { TTL, ...(metadata && { metadata }) }, etag } }
  }

  async write(
    _name: string,
    { state: { url, preserved, etag } }: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const headers: Record<string, string> =
      etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag }
    const TXTRecords = values.map((value) => ({ value: JSON.parse(value) }))
    const { status } = await this.#request(
      values.length === 0
        ? { url, signal, method: 'DELETE', headers, accept: [200, 204, 412] }
        : {
            url,
            signal,
            method: 'PUT',
            headers: { ...headers, 'content-type': 'application/json' },
            body: JSON.stringify({ properties: { ...preserved, TXTRecords } }),
            accept: [200, 201, 412],
          },
    )
    return status === 412 ? 'the record set was changed by another' : undefined
  }

  /** The path of the record set in its zone. */
  async #findPath(name: string, signal: AbortSignal): Promise<string> {
    const { endpoint, subscriptionId, resourceGroup } = this.#config
    const zones = `/subscriptions/${subscriptionId}/resourceGroups/${resourceGroup}/providers/Microsoft.Network/dnsZones`
    return await findZone(name, async (zone) => {
      const url = endpointUrl(endpoint, `${zones}/${zone}?${VERSION}`)
      // A role on one zone only gets 403 for names that are no zones.
      const { status } = await this.#request({ url, signal, accept: [200, 403, 404] })
      const relative = name === zone ? '@' : name.slice(0, -zone.length - 1)
      return status === 200 ? `${zones}/${zone}/TXT/${relative}?${VERSION}` : undefined
    })
  }

  async #request(init: RequestInit) {
    const authorization = `Bearer ${await this.#token(init.signal)}`
    const headers = { accept: 'application/json', ...init.headers, authorization }
    return await call(this.#fetch, { api: API, reason, ...init, headers })
  }
}

export const createAzure = (config: AzureConfig, deps: DnsProviderDeps): DnsProvider =>
  createRecordSetProvider(new Azure(config, deps), deps.clock)

/** Uses the client secret, the workload identity or, without both, the managed identity of the machine. */
async function requestToken(
  config: AzureConfig,
  fetch: DnsProviderDeps['fetch'],
  signal: AbortSignal,
): Promise<Token> {
  const { endpoint, tenantId, clientId, clientSecret, tokenPath, authority } = config
  if (clientSecret === undefined && tokenPath === undefined)
    return await requestIdentityToken(config, fetch, signal)
  const proof: Record<string, string> =
    clientSecret === undefined
      ? { client_assertion_type: JWT_BEARER, client_assertion: await readToken(tokenPath ?? '') }
      : { client_secret: clientSecret }
  return await callJson(fetch, TokenSchema, {
    api: 'Microsoft Entra ID',
    url: endpointUrl(authority, `/${tenantId}/oauth2/v2.0/token`),
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: clientId ?? '',
      scope: `${new URL(endpoint).origin}/.default`,
      ...proof,
    }).toString(),
    signal,
    reason: oauthError,
  })
}

async function requestIdentityToken(
  { endpoint, clientId, metadataEndpoint }: AzureConfig,
  fetch: DnsProviderDeps['fetch'],
  signal: AbortSignal,
): Promise<Token> {
  const url = new URL('/metadata/identity/oauth2/token', metadataEndpoint)
  url.searchParams.set('api-version', '2018-02-01')
  url.searchParams.set('resource', `${new URL(endpoint).origin}/`)
  if (clientId !== undefined) url.searchParams.set('client_id', clientId)
  const api = 'the managed identity of the machine'
  return await callJson(fetch, TokenSchema, { api, url, headers: { metadata: 'true' }, signal })
}

async function readToken(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (cause) {
    throw new AcmeError('ACME_DNS_CREDENTIALS', `${path} cannot be read`, { cause })
  }
}

const RefusalSchema = Type.Object({
  error: Type.Object({ code: Type.String(), message: Type.String() }),
})
const reason = (body: Buffer) =>
  readReason(parseJson(body), RefusalSchema, ({ error }) => `${error.code} ${error.message}`)
