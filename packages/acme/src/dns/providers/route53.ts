import { type Static, type TSchema, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { call, endpointUrl, readAs, readReason } from './api.ts'
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
import { signAws } from './sigv4.ts'

export const Route53Schema = Type.Object({
  type: Type.Literal('route53'),
  ...commonOptions,
  accessKeyId: Text('Access key identifier.'),
  secretAccessKey: Secret('Secret access key.'),
  sessionToken: Type.Optional(Secret('Session token of temporary credentials.')),
  hostedZoneId: Type.Optional(
    Text(
      'Identifier of the hosted zone. Default: it is looked up, which needs the permission ListHostedZonesByName.',
      {
        pattern: '^[A-Z0-9]{1,32}$',
      },
    ),
  ),
  region: Text('Region in the signature of requests.', { default: 'us-east-1' }),
  endpoint: Endpoint('https://route53.amazonaws.com'),
})

type Route53Config = Static<typeof Route53Schema>

const API = 'Route 53'
const VERSION = '/2013-04-01'
const XMLNS = 'https://route53.amazonaws.com/doc/2013-04-01/'
/** Errors if the record set has changed since it was read, or is being changed. */
const CONFLICTS = ['InvalidChangeBatch', 'PriorRequestNotComplete', 'Throttling']

/** XML elements that may occur several times. */
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

interface RequestInit {
  readonly signal: AbortSignal
  /** Makes it a POST. */
  readonly body?: string
  readonly query?: Readonly<Record<string, string>>
}

/**
 * Amazon Route 53. One batch deletes exactly the record set that was read and creates the new one; it
 * fails as a whole if the record set is another by then.
 */
class Route53 implements RecordSetApi<State> {
  readonly #config: Route53Config
  readonly #deps: DnsProviderDeps

  constructor(config: Route53Config, deps: DnsProviderDeps) {
    this.#config = config
    this.#deps = deps
  }

  format(value: string): string {
    return `"${value}"`
  }

  async read(name: string, signal: AbortSignal): Promise<RecordSet<State>> {
    const zone = this.#config.hostedZoneId ?? (await this.#findZone(name, signal))
    const query = { name, type: 'TXT', maxitems: '1' }
    const path = `/hostedzone/${zone}/rrset`
    const answer = await this.#request(RecordSetsSchema, path, { query, signal })
    const sets = answer.ListResourceRecordSetsResponse.ResourceRecordSets
    // The list begins at the name and goes on with the names after it.
    const own = (sets === '' ? [] : sets.ResourceRecordSet).find(
      (set) => set.Name === `${name}.` && set.Type === 'TXT',
    )
    const values = own?.ResourceRecords?.ResourceRecord.map(({ Value }) => Value) ?? []
    return { values, state: { zone, ttl: own?.TTL ?? String(TTL_SECONDS) } }
  }

  async write(
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
      const answer = await this.#request(ChangedSchema, path, { body, signal })
      const { Id, Status } = answer.ChangeResourceRecordSetsResponse.ChangeInfo
      const isDone = () => this.#isDone(Id, signal)
      if (values.length > before.length && Status === 'PENDING')
        await awaitChange(API, isDone, { clock: this.#deps.clock, signal })
      return undefined
    } catch (error) {
      const { message } = error as Error
      if (error instanceof AcmeError && CONFLICTS.some((code) => message.includes(code)))
        return message
      throw error
    }
  }

  async #findZone(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const query = { dnsname: zone, maxitems: '10' }
      const answer = await this.#request(ZonesSchema, '/hostedzonesbyname', { query, signal })
      const zones = answer.ListHostedZonesByNameResponse.HostedZones
      const found = (zones === '' ? [] : zones.HostedZone).find(
        ({ Name, Config }) => Name === `${zone}.` && Config?.PrivateZone !== 'true',
      )
      return found?.Id.slice('/hostedzone/'.length)
    })
  }

  async #isDone(changeId: string, signal: AbortSignal): Promise<boolean> {
    const { GetChangeResponse } = await this.#request(ChangeSchema, changeId, { signal })
    return GetChangeResponse.ChangeInfo.Status === 'INSYNC'
  }

  async #request<S extends TSchema>(
    schema: S,
    path: string,
    { signal, body, query = {} }: RequestInit,
  ): Promise<Static<S>> {
    const { endpoint, region } = this.#config
    const { fetch, clock } = this.#deps
    const url = endpointUrl(endpoint, `${VERSION}${path}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const method = body === undefined ? 'GET' : 'POST'
    const content = body === undefined ? {} : { body, headers: { 'content-type': 'text/xml' } }
    const scope = { region, service: 'route53' }
    const headers = signAws({ method, url, ...content }, scope, this.#config, clock.now())
    const parse = await loadParser()
    const reason = (answer: Buffer) => reasonOf(parse(answer))
    const answer = await call(fetch, { api: API, url, method, ...content, headers, signal, reason })
    return readAs(API, schema, parse(answer.body))
  }
}

export const createRoute53 = (config: Route53Config, deps: DnsProviderDeps): DnsProvider =>
  createRecordSetProvider(new Route53(config, deps), deps.clock)

/** Empty if there are no values, because a record set cannot be empty. */
function change(action: string, name: string, ttl: string, values: readonly string[]): string {
  if (values.length === 0) return ''
  const records = values.map(
    (value) => `<ResourceRecord><Value>${escapeXml(value)}</Value></ResourceRecord>`,
  )
  return `<Change><Action>${action}</Action><ResourceRecordSet><Name>${name}.</Name><Type>TXT</Type><TTL>${ttl}</TTL><ResourceRecords>${records.join('')}</ResourceRecords></ResourceRecordSet></Change>`
}

const escapeXml = (text: string): string =>
  text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`)

/** Imported on first use, as few installations need it. */
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

const reasonOf = (answer: unknown) =>
  readReason(answer, RefusalSchema, ({ ErrorResponse: { Error: error } }) =>
    `${error.Code} ${error.Message ?? ''}`.trimEnd(),
  )
