import { type Static, type TSchema, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { Endpoint, Secret, Text } from '../schema.ts'
import { call, endpointUrl, readAs, readReason } from './call.ts'
import { commonOptions, type DnsProvider, type DnsProviderDeps, TTL_SECONDS } from './provider.ts'
import { awaitChange, createRecordSetProvider, type RecordSet } from './record-set.ts'
import { signAws } from './sigv4.ts'
import { findZone } from './zone.ts'

export const Route53Schema = Type.Object({
  type: Type.Literal('route53'),
  ...commonOptions,
  accessKeyId: Text('Access key identifier.'),
  secretAccessKey: Secret('Secret access key.'),
  sessionToken: Type.Optional(Secret('Session token of temporary credentials.')),
  hostedZoneId: Type.Optional(
    Text('Identifier of the hosted zone. Left out: found, which needs ListHostedZonesByName.', {
      pattern: '^[A-Z0-9]{1,32}$',
    }),
  ),
  region: Text('Region that requests are signed for.', { default: 'us-east-1' }),
  endpoint: Endpoint('https://route53.amazonaws.com'),
})

const VERSION = '/2013-04-01'
const XMLNS = 'https://route53.amazonaws.com/doc/2013-04-01/'
/** What is said when the record set is not as we have read it, or is being changed. */
const CONFLICTS = ['InvalidChangeBatch', 'PriorRequestNotComplete', 'Throttling']

const LISTS = ['HostedZone', 'ResourceRecordSet', 'ResourceRecord']

const ZonesSchema = Type.Object({
  ListHostedZonesByNameResponse: Type.Object({
    HostedZones: Type.Union([
      Type.Literal(''),
      Type.Object({
        HostedZone: Type.Array(
          Type.Object({
            Id: Type.String({ pattern: '^/hostedzone/[A-Z0-9]{1,32}$' }),
            Name: Type.String(),
            Config: Type.Optional(Type.Object({ PrivateZone: Type.Optional(Type.String()) })),
          }),
        ),
      }),
    ]),
  }),
})
const RecordSetSchema = Type.Object({
  Name: Type.String(),
  Type: Type.String(),
  TTL: Type.Optional(Type.String({ pattern: '^\\d{1,10}$' })),
  ResourceRecords: Type.Optional(
    Type.Object({ ResourceRecord: Type.Array(Type.Object({ Value: Type.String() })) }),
  ),
})
const RecordSetsSchema = Type.Object({
  ListResourceRecordSetsResponse: Type.Object({
    ResourceRecordSets: Type.Union([
      Type.Literal(''),
      Type.Object({ ResourceRecordSet: Type.Array(RecordSetSchema) }),
    ]),
  }),
})
const ChangeInfo = Type.Object({
  ChangeInfo: Type.Object({
    Id: Type.String({ pattern: '^/change/[A-Z0-9]{1,32}$' }),
    Status: Type.Enum(['PENDING', 'INSYNC']),
  }),
})
const ChangedSchema = Type.Object({ ChangeResourceRecordSetsResponse: ChangeInfo })
const ChangeSchema = Type.Object({ GetChangeResponse: ChangeInfo })

interface State {
  readonly zone: string
  readonly ttl: string
}

/**
 * Amazon Route 53. A record set is replaced by deleting just what was read and creating the new one
 * in one batch, which fails as a whole if another was faster.
 */
export function createRoute53(
  config: Static<typeof Route53Schema>,
  { fetch, clock }: DnsProviderDeps,
): DnsProvider {
  async function request<S extends TSchema>(
    schema: S,
    path: string,
    {
      signal,
      body,
      query = {},
    }: { signal: AbortSignal; body?: string; query?: Record<string, string> },
  ): Promise<Static<S>> {
    const url = endpointUrl(config.endpoint, `${VERSION}${path}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const method = body === undefined ? 'GET' : 'POST'
    const content = body === undefined ? {} : { body, headers: { 'content-type': 'text/xml' } }
    const scope = { region: config.region, service: 'route53' }
    const headers = signAws({ method, url, ...content }, scope, config, clock.now())
    const parse = await loadParser()
    const reason = (answer: Buffer) => refusal(parse(answer))
    const answer = await call(fetch, { api: API, url, method, ...content, headers, signal, reason })
    return readAs(API, schema, parse(answer.body))
  }

  async function findZoneId(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const query = { dnsname: zone, maxitems: '10' }
      const answer = await request(ZonesSchema, '/hostedzonesbyname', { query, signal })
      const zones = answer.ListHostedZonesByNameResponse.HostedZones
      const found = (zones === '' ? [] : zones.HostedZone).find(
        ({ Name, Config }) => Name === `${zone}.` && Config?.PrivateZone !== 'true',
      )
      return found?.Id.slice('/hostedzone/'.length)
    })
  }

  async function read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const zone = config.hostedZoneId ?? (await findZoneId(name, signal))
    const query = { name, type: 'TXT', maxitems: '1' }
    const answer = await request(RecordSetsSchema, `/hostedzone/${zone}/rrset`, { query, signal })
    const sets = answer.ListResourceRecordSetsResponse.ResourceRecordSets
    // The list begins at the name, and goes on with what comes after it.
    const own = (sets === '' ? [] : sets.ResourceRecordSet).find(
      (set) => set.Name === `${name}.` && set.Type === 'TXT',
    )
    const values = own?.ResourceRecords?.ResourceRecord.map(({ Value }) => Value) ?? []
    return { values, state: { zone, ttl: own?.TTL ?? String(TTL_SECONDS) } }
  }

  async function write(
    name: string,
    { values: before, state: { zone, ttl } }: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const changes = [change('DELETE', name, ttl, before), change('CREATE', name, ttl, values)]
    const batch = `<ChangeBatch><Changes>${changes.join('')}</Changes></ChangeBatch>`
    const body = `<?xml version="1.0" encoding="UTF-8"?>\n<ChangeResourceRecordSetsRequest xmlns="${XMLNS}">${batch}</ChangeResourceRecordSetsRequest>`
    try {
      const path = `/hostedzone/${zone}/rrset/`
      const answer = await request(ChangedSchema, path, { body, signal })
      const { Id, Status } = answer.ChangeResourceRecordSetsResponse.ChangeInfo
      if (values.length > before.length && Status === 'PENDING')
        await awaitChange(API, () => isDone(Id, signal), { clock, signal })
      return undefined
    } catch (error) {
      const { message } = error as Error
      if (error instanceof AcmeError && CONFLICTS.some((code) => message.includes(code)))
        return message
      throw error
    }
  }

  async function isDone(changeId: string, signal: AbortSignal): Promise<boolean> {
    const { GetChangeResponse } = await request(ChangeSchema, changeId, { signal })
    return GetChangeResponse.ChangeInfo.Status === 'INSYNC'
  }

  return createRecordSetProvider({ format: (value) => `"${value}"`, read, write }, clock)
}

const API = 'Route 53'

/** Empty for a record set without values, as there is none. */
function change(action: string, name: string, ttl: string, values: readonly string[]): string {
  if (values.length === 0) return ''
  const records = values.map(
    (value) => `<ResourceRecord><Value>${escapeXml(value)}</Value></ResourceRecord>`,
  )
  return `<Change><Action>${action}</Action><ResourceRecordSet><Name>${name}.</Name><Type>TXT</Type><TTL>${ttl}</TTL><ResourceRecords>${records.join('')}</ResourceRecords></ResourceRecordSet></Change>`
}

const escapeXml = (text: string): string =>
  text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`)

/** Loaded when it is first needed: a service without Route 53 does not wait for it. */
async function loadParser(): Promise<(body: Buffer) => unknown> {
  const { XMLParser } = await import('fast-xml-parser')
  const parser = new XMLParser({ parseTagValue: false, isArray: (name) => LISTS.includes(name) })
  return (body) => {
    try {
      return parser.parse(body.toString())
    } catch {
      return undefined
    }
  }
}

const RefusalSchema = Type.Object({
  ErrorResponse: Type.Object({
    Error: Type.Object({ Code: Type.String(), Message: Type.Optional(Type.String()) }),
  }),
})

const refusal = (answer: unknown) =>
  readReason(answer, RefusalSchema, ({ ErrorResponse: { Error: error } }) =>
    `${error.Code} ${error.Message ?? ''}`.trimEnd(),
  )
