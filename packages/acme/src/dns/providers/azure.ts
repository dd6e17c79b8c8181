import { readFile } from 'node:fs/promises'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { Endpoint, FilePath, Secret, Text } from '../schema.ts'
import { type Call, call, callJson, endpointUrl, parseJson, readAs, readReason } from './call.ts'
import { commonOptions, type DnsProvider, type DnsProviderDeps, TTL_SECONDS } from './provider.ts'
import { createRecordSetProvider, type RecordSet } from './record-set.ts'
import { createTokenSource, oauthError, type Token, TokenSchema } from './token.ts'
import { findZone } from './zone.ts'

const Id = (description: string) => Text(description, { pattern: '^[0-9A-Za-z._()-]{1,128}$' })

export const AzureSchema = Type.Object({
  type: Type.Literal('azure'),
  ...commonOptions,
  subscriptionId: Id('Subscription of the zones.'),
  resourceGroup: Id('Resource group of the zones.'),
  tenantId: Type.Optional(Id('Tenant; not for a managed identity.')),
  clientId: Type.Optional(
    Id('Client identifier; for a managed identity only if it is user-assigned.'),
  ),
  clientSecret: Type.Optional(Secret('Client secret.')),
  tokenPath: Type.Optional(
    FilePath('File with the token of a workload identity, read anew each time.'),
  ),
  endpoint: Endpoint('https://management.azure.com'),
  authority: Text('Address where tokens are given out.', {
    default: 'https://login.microsoftonline.com',
  }),
  metadataEndpoint: Text('Address of the service that gives managed identities their tokens.', {
    default: 'http://169.254.169.254',
  }),
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
  /** What is not ours to change. */
  readonly kept: { readonly TTL: number; readonly metadata?: Readonly<Record<string, string>> }
  /** Undefined: there is no record set yet. */
  readonly etag: string | undefined
}

/** Azure DNS; the entity tag makes sure that a record set is replaced only as it was read. */
export function createAzure(config: AzureConfig, { fetch, clock }: DnsProviderDeps): DnsProvider {
  const token = createTokenSource((signal) => requestToken(config, fetch, signal), clock)

  async function request(init: Omit<Call, 'api'> & { signal: AbortSignal }) {
    const authorization = `Bearer ${await token(init.signal)}`
    const headers = { accept: 'application/json', ...init.headers, authorization }
    return await call(fetch, { api: API, reason, ...init, headers })
  }

  async function findZoneUrl(name: string, signal: AbortSignal): Promise<string> {
    const { subscriptionId, resourceGroup } = config
    const zones = `/subscriptions/${subscriptionId}/resourceGroups/${resourceGroup}/providers/Microsoft.Network/dnsZones`
    return await findZone(name, async (zone) => {
      const url = endpointUrl(config.endpoint, `${zones}/${zone}?${VERSION}`)
      // A role on one zone only is refused on names that are no zones.
      const { status } = await request({ url, signal, accept: [200, 403, 404] })
      const relative = name === zone ? '@' : name.slice(0, -zone.length - 1)
      return status === 200 ? `${zones}/${zone}/TXT/${relative}?${VERSION}` : undefined
    })
  }

  async function read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const url = endpointUrl(config.endpoint, await findZoneUrl(name, signal))
    const { status, body } = await request({ url, signal, accept: [200, 404] })
    if (status === 404)
      return { values: [], state: { url, kept: { TTL: TTL_SECONDS }, etag: undefined } }
    const { etag, properties } = readAs(API, RecordSetSchema, parseJson(body))
    const { TXTRecords = [], TTL, metadata } = properties
    const values = TXTRecords.map(({ value }) => JSON.stringify(value))
    return { values, state: { url, kept: { TTL, ...(metadata && { metadata }) }, etag } }
  }

  async function write(
    _name: string,
    { state: { url, kept, etag } }: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const condition: Record<string, string> =
      etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag }
    const TXTRecords = values.map((value) => ({ value: JSON.parse(value) }))
    const { status } = await request(
      values.length === 0
        ? { url, signal, method: 'DELETE', headers: condition, accept: [200, 204, 412] }
        : {
            url,
            signal,
            method: 'PUT',
            headers: { ...condition, 'content-type': 'application/json' },
            body: JSON.stringify({ properties: { ...kept, TXTRecords } }),
            accept: [200, 201, 412],
          },
    )
    return status === 412 ? 'the record set was changed by another' : undefined
  }

  return createRecordSetProvider({ format: (value) => JSON.stringify([value]), read, write }, clock)
}

/** By client secret, by workload identity, else as the managed identity of the machine. */
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
