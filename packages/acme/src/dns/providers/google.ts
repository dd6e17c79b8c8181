import { sign } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { Endpoint, Secret, Text } from '../schema.ts'
import { type Call, call, callJson, endpointUrl, parseJson, readAs, readReason } from './call.ts'
import { commonOptions, type DnsProvider, type DnsProviderDeps, TTL_SECONDS } from './provider.ts'
import { awaitChange, createRecordSetProvider, type RecordSet } from './record-set.ts'
import { createTokenSource, oauthError, type Token, TokenSchema } from './token.ts'
import { findZone } from './zone.ts'

export const GoogleSchema = Type.Object({
  type: Type.Literal('google'),
  ...commonOptions,
  project: Text('Project of the zones.', { pattern: '^[0-9a-z:.-]{1,100}$' }),
  serviceAccount: Type.Optional(
    Secret('Key of a service account, JSON. Left out: the service account of the machine.'),
  ),
  endpoint: Endpoint('https://dns.googleapis.com'),
  metadataEndpoint: Text('Address of the service that gives machines their tokens.', {
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
 * Google Cloud DNS. A change deletes just what was read and adds the new record set, and fails as a
 * whole if another was faster.
 */
export function createGoogle(config: GoogleConfig, { fetch, clock }: DnsProviderDeps): DnsProvider {
  const token = createTokenSource((signal) => requestToken(config, { fetch, clock }, signal), clock)

  async function request(path: string, init: Pick<Call, 'body' | 'accept'>, signal: AbortSignal) {
    const url = endpointUrl(config.endpoint, `/dns/v1/projects/${config.project}${path}`)
    const headers = {
      accept: 'application/json',
      authorization: `Bearer ${await token(signal)}`,
      ...(init.body !== undefined && { 'content-type': 'application/json' }),
    }
    const method = init.body === undefined ? 'GET' : 'POST'
    return await call(fetch, { api: API, url, method, headers, signal, reason, ...init })
  }

  async function findZoneName(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const { body } = await request(`/managedZones?dnsName=${zone}.`, {}, signal)
      const { managedZones = [] } = readAs(API, ZonesSchema, parseJson(body))
      return managedZones.find(
        ({ dnsName, visibility }) => dnsName === `${zone}.` && visibility !== 'private',
      )?.name
    })
  }

  async function read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const zone = await findZoneName(name, signal)
    const path = `/managedZones/${zone}/rrsets?name=${encodeURIComponent(name)}.&type=TXT`
    const { body } = await request(path, {}, signal)
    const { rrsets = [] } = readAs(API, RecordSetsSchema, parseJson(body))
    const own = rrsets.find((set) => set.name === `${name}.` && set.type === 'TXT')
    return { values: own?.rrdatas ?? [], state: { zone, ttl: own?.ttl ?? TTL_SECONDS } }
  }

  async function write(
    name: string,
    { values: before, state: { zone, ttl } }: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const setOf = (rrdatas: readonly string[]) =>
      rrdatas.length === 0 ? [] : [{ name: `${name}.`, type: 'TXT', ttl, rrdatas }]
    const path = `/managedZones/${zone}/changes`
    const content = JSON.stringify({ deletions: setOf(before), additions: setOf(values) })
    const { status, body } = await request(
      path,
      { body: content, accept: [200, 404, 409, 412] },
      signal,
    )
    if (status !== 200) return 'the record set was changed by another'
    const change = readAs(API, ChangeSchema, parseJson(body))
    const isDone = async () => {
      const { body } = await request(`${path}/${change.id}`, {}, signal)
      return readAs(API, ChangeSchema, parseJson(body)).status === 'done'
    }
    if (values.length > before.length && change.status === 'pending')
      await awaitChange(API, isDone, { clock, signal })
    return undefined
  }

  return createRecordSetProvider({ format: (value) => `"${value}"`, read, write }, clock)
}

/** With the key of a service account (RFC 7523), else from the metadata service of the machine. */
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
      assertion: signAssertion(key, Math.floor(clock.now() / 1_000)),
    }).toString(),
    signal,
    reason: oauthError,
  })
}

function signAssertion(key: Static<typeof ServiceAccountSchema>, now: number): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const { client_email: iss, private_key_id: kid, token_uri: aud } = key
  const header = encode({ alg: 'RS256', typ: 'JWT', kid })
  const claims = encode({ iss, scope: SCOPE, aud, iat: now, exp: now + TOKEN_SECONDS })
  try {
    const signature = sign('sha256', Buffer.from(`${header}.${claims}`), key.private_key)
    return `${header}.${claims}.${signature.toString('base64url')}`
  } catch {
    // OpenSSL's error may quote what it read, so it is not passed on as the cause.
    throw new AcmeError('ACME_DNS_CREDENTIALS', 'the key of the service account cannot be read')
  }
}

const RefusalSchema = Type.Object({ error: Type.Object({ message: Type.String() }) })
const reason = (body: Buffer) =>
  readReason(parseJson(body), RefusalSchema, ({ error }) => error.message)
