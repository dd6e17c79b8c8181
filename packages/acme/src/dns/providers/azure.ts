import { readFile } from 'node:fs/promises'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { bearer, createApi, form, json, reasonIn, type TokenRequest } from './api.ts'
import { type CreateDnsProvider, defineOptions, findZone, Option, TTL_SECONDS } from './provider.ts'
import { createRecordSetProvider } from './record-set.ts'

const Id = (description: string) =>
  Option.Text(description, { pattern: '^[0-9A-Za-z._()-]{1,128}$' })

const APPLICATION = ['tenantId', 'clientId']

export const AzureSchema = defineOptions(
  'azure',
  {
    subscriptionId: Id('Subscription of the zones.'),
    resourceGroup: Id('Resource group of the zones.'),
    tenantId: Type.Optional(Id('Tenant. Not for a managed identity.')),
    clientId: Type.Optional(
      Id('Client identifier. For a managed identity only if it is user-assigned.'),
    ),
    clientSecret: Type.Optional(Option.Secret('Client secret.')),
    tokenPath: Type.Optional(
      Option.FilePath(
        'File with the token of a workload identity, read for each request of an access token.',
      ),
    ),
    endpoint: Option.Endpoint('https://management.azure.com'),
    authority: Option.Text('URL of the authority that issues tokens.', {
      default: 'https://login.microsoftonline.com',
    }),
    metadataEndpoint: Option.Text(
      'URL of the metadata service, which gives managed identities their tokens.',
      { default: 'http://169.254.169.254' },
    ),
  },
  {
    needs: { clientSecret: APPLICATION, tokenPath: APPLICATION },
    excludes: { clientSecret: ['tokenPath'] },
  },
)

type AzureConfig = Static<typeof AzureSchema>

const API = 'Azure DNS'
const VERSION = '?api-version=2018-05-01'
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
const reason = reasonIn(
  Type.Object({ error: Type.Object({ code: Type.String(), message: Type.String() }) }),
  ({ error }) => `${error.code} ${error.message}`,
)

/** Azure DNS. The entity tag ensures that a record set is replaced only as it was read. */
export const createAzure: CreateDnsProvider<typeof AzureSchema> = (config, deps) => {
  const { endpoint, subscriptionId, resourceGroup } = config
  const authorize = bearer(() => tokenRequest(config), deps)
  const api = createApi({ name: API, endpoint, fetch: deps.fetch, authorize, reason })
  const zones = `/subscriptions/${subscriptionId}/resourceGroups/${resourceGroup}/providers/Microsoft.Network/dnsZones`

  async function read(name: string, signal: AbortSignal) {
    const path = await findPath(name, signal)
    const set = await api.find(RecordSetSchema, path, { signal, accept: [200, 404] })
    // The TTL and the metadata are written back unchanged.
    const { TXTRecords = [], TTL = TTL_SECONDS, metadata } = set?.properties ?? {}

    async function replace(values: readonly string[]) {
      const headers: Record<string, string> = set
        ? { 'if-match': set.etag }
        : { 'if-none-match': '*' }
      const records = values.map((value) => ({ value: JSON.parse(value) }))
      const content = json({ properties: { TTL, metadata, TXTRecords: records } })
      const { status } = await api.send(path, {
        ...(values.length > 0
          ? { method: 'PUT', content, accept: [200, 201, 412] }
          : { method: 'DELETE', accept: [200, 204, 412] }),
        headers,
        signal,
      })
      return status === 412 ? { conflict: 'the record set was changed by another' } : {}
    }
    return { values: TXTRecords.map(({ value }) => JSON.stringify(value)), replace }
  }

  /** The path of the record set in its zone. */
  async function findPath(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      // A role on one zone only gets 403 for names that are no zones.
      const accept = [200, 403, 404]
      const { status } = await api.send(`${zones}/${zone}${VERSION}`, { signal, accept })
      const relative = name === zone ? '@' : name.slice(0, -zone.length - 1)
      return status === 200 ? `${zones}/${zone}/TXT/${relative}${VERSION}` : undefined
    })
  }

  const format = (value: string) => JSON.stringify([value])
  return createRecordSetProvider({ name: API, read, format }, deps)
}

/** Uses the client secret, the workload identity or, without both, the managed identity of the machine. */
async function tokenRequest(config: AzureConfig): Promise<TokenRequest> {
  const { tenantId, clientId, clientSecret, tokenPath, authority, metadataEndpoint } = config
  const { origin } = new URL(config.endpoint)
  if (clientSecret === undefined && tokenPath === undefined) {
    const query = new URLSearchParams({ 'api-version': '2018-02-01', resource: `${origin}/` })
    if (clientId !== undefined) query.set('client_id', clientId)
    return {
      name: 'the managed identity of the machine',
      endpoint: new URL('/metadata/identity', metadataEndpoint),
      path: `/oauth2/token?${query}`,
      headers: { metadata: 'true' },
    }
  }
  const proof: Record<string, string> =
    clientSecret === undefined
      ? { client_assertion_type: JWT_BEARER, client_assertion: await readToken(tokenPath ?? '') }
      : { client_secret: clientSecret }
  const scope = `${origin}/.default`
  return {
    name: 'Microsoft Entra ID',
    endpoint: authority,
    path: `/${tenantId}/oauth2/v2.0/token`,
    content: form({
      grant_type: 'client_credentials',
      client_id: clientId ?? '',
      scope,
      ...proof,
    }),
  }
}

async function readToken(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (cause) {
    throw new AcmeError('ACME_DNS_CREDENTIALS', `${path} cannot be read`, { cause })
  }
}
