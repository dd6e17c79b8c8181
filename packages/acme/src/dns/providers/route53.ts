import { attempt } from '@gatehouse/net'
import { type Static, type TSchema, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { type Api, createApi, type Outgoing, reasonIn } from './api.ts'
import { type CreateDnsProvider, defineOptions, findZone, Option, TTL_SECONDS } from './provider.ts'
import { createRecordSetProvider } from './record-set.ts'

export const Route53Schema = defineOptions('route53', {
  accessKeyId: Option.Text('Access key identifier.'),
  secretAccessKey: Option.Secret('Secret access key.'),
  sessionToken: Type.Optional(Option.Secret('Session token of temporary credentials.')),
  hostedZoneId: Type.Optional(
    Option.Text(
      'Identifier of the hosted zone. Default: it is looked up, which needs the permission ListHostedZonesByName.',
      { pattern: '^[A-Z0-9]{1,32}$' },
    ),
  ),
  region: Option.Text('Region in the signature of requests.', { default: 'us-east-1' }),
  endpoint: Option.Endpoint('https://route53.amazonaws.com'),
})

type AwsCredentials = Pick<
  Static<typeof Route53Schema>,
  'accessKeyId' | 'secretAccessKey' | 'sessionToken' | 'region'
>

const API = 'Route 53'
const VERSION = '/2013-04-01'
const XMLNS = 'https://route53.amazonaws.com/doc/2013-04-01/'
/** Errors if the record set has changed since it was read, or is being changed. */
const CONFLICTS = ['InvalidChangeBatch', 'PriorRequestNotComplete', 'Throttling']

/** XML elements that may occur several times. */
const LISTS = ['HostedZone', 'ResourceRecordSet', 'ResourceRecord']

/** An element of XML that holds a list is an empty text if it holds nothing. */
const orEmpty = <S extends TSchema>(schema: S) => Type.Union([Type.Literal(''), schema])

const ZoneSchema = Type.Object({
  Id: Type.String({ pattern: '^/hostedzone/[A-Z0-9]{1,32}$' }),
  Name: Type.String(),
  Config: Type.Optional(Type.Object({ PrivateZone: Type.Optional(Type.String()) })),
})
const ZonesSchema = Type.Object({
  HostedZones: orEmpty(Type.Object({ HostedZone: Type.Array(ZoneSchema) })),
})
const RecordSchema = Type.Object({ Value: Type.String() })
const RecordSetSchema = Type.Object({
  Name: Type.String(),
  Type: Type.String(),
  TTL: Type.Optional(Type.String({ pattern: '^\\d{1,10}$' })),
  ResourceRecords: Type.Optional(Type.Object({ ResourceRecord: Type.Array(RecordSchema) })),
})
const RecordSetsSchema = Type.Object({
  ResourceRecordSets: orEmpty(Type.Object({ ResourceRecordSet: Type.Array(RecordSetSchema) })),
})
const ChangeSchema = Type.Object({
  ChangeInfo: Type.Object({
    Id: Type.String({ pattern: '^/change/[A-Z0-9]{1,32}$' }),
    Status: Type.Enum(['PENDING', 'INSYNC']),
  }),
})
const reason = reasonIn(
  Type.Object({
    Error: Type.Object({ Code: Type.String(), Message: Type.Optional(Type.String()) }),
  }),
  ({ Error: { Code, Message = '' } }) => `${Code} ${Message}`.trimEnd(),
)

/**
 * Amazon Route 53. One batch deletes exactly the record set that was read and creates the new one; it
 * fails as a whole if the record set is another by then.
 */
export const createRoute53: CreateDnsProvider<typeof Route53Schema> = (config, deps) => {
  const authorize = (url: URL, request: Outgoing) =>
    signAws({ ...request, url, service: 'route53' }, config, deps.clock.now())
  const { endpoint } = config
  const format = { parse: parseXml, reason }
  const api = createApi({ name: API, endpoint, fetch: deps.fetch, authorize, ...format })

  async function read(name: string, signal: AbortSignal) {
    const zone = config.hostedZoneId ?? (await findZoneId(name, signal))
    const path = `${VERSION}/hostedzone/${zone}/rrset`
    const query = new URLSearchParams({ name, type: 'TXT', maxitems: '1' })
    const answer = await api.read(RecordSetsSchema, `${path}?${query}`, { signal })
    // The list begins at the name and goes on with the names after it.
    const set = (answer.ResourceRecordSets || { ResourceRecordSet: [] }).ResourceRecordSet.find(
      ({ Name, Type }) => Name === `${name}.` && Type === 'TXT',
    )
    const values = set?.ResourceRecords?.ResourceRecord.map(({ Value }) => Value) ?? []
    const changes = (after: readonly string[]) =>
      [change('DELETE', name, set?.TTL, values), change('CREATE', name, set?.TTL, after)].join('')
    const replace = (after: readonly string[]) => submit(api, `${path}/`, changes(after), signal)
    return { values, replace }
  }

  async function findZoneId(name: string, signal: AbortSignal): Promise<string> {
    return await findZone(name, async (zone) => {
      const path = `${VERSION}/hostedzonesbyname?dnsname=${zone}&maxitems=10`
      const { HostedZones } = await api.read(ZonesSchema, path, { signal })
      const match = (HostedZones || { HostedZone: [] }).HostedZone.find(
        ({ Name, Config }) => Name === `${zone}.` && Config?.PrivateZone !== 'true',
      )
      return match?.Id.slice('/hostedzone/'.length)
    })
  }

  return createRecordSetProvider({ name: API, read }, deps)
}

async function submit(api: Api, path: string, changes: string, signal: AbortSignal) {
  const batch = `<ChangeBatch><Changes>${changes}</Changes></ChangeBatch>`
  const body =
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
    `<ChangeResourceRecordSetsRequest xmlns="${XMLNS}">${batch}</ChangeResourceRecordSetsRequest>`
  try {
    const content = { type: 'text/xml', body }
    const { Id, Status } = (await api.read(ChangeSchema, path, { content, signal })).ChangeInfo
    return Status === 'INSYNC' ? {} : { isDone: () => isInSync(api, Id, signal) }
  } catch (error) {
    return { conflict: conflictIn(error) }
  }
}

async function isInSync(api: Api, changeId: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { ChangeInfo } = await api.read(ChangeSchema, VERSION + changeId, { signal })
    return ChangeInfo.Status === 'INSYNC'
  } catch (error) {
    conflictIn(error)
    return false
  }
}

/** Throws other errors. */
function conflictIn(error: unknown): string {
  const { message } = error as Error
  if (error instanceof AcmeError && CONFLICTS.some((code) => message.includes(code))) return message
  throw error
}

/** Empty if there are no values, because a record set cannot be empty. */
function change(action: string, name: string, ttl = `${TTL_SECONDS}`, values: readonly string[]) {
  if (values.length === 0) return ''
  const texts = values.map((value) => `<Value>${escapeXml(value)}</Value>`)
  const records = texts.map((text) => `<ResourceRecord>${text}</ResourceRecord>`)
  const set = `<Name>${name}.</Name><Type>TXT</Type><TTL>${ttl}</TTL><ResourceRecords>${records.join('')}</ResourceRecords>`
  return `<Change><Action>${action}</Action><ResourceRecordSet>${set}</ResourceRecordSet></Change>`
}

const escapeXml = (text: string): string =>
  text.replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`)

// The libraries are imported on first use, as few installations need them.

/** The content of the root element. */
async function parseXml(body: Buffer): Promise<unknown> {
  const { XMLParser } = await import('fast-xml-parser')
  const isArray = (name: string) => LISTS.includes(name)
  const parser = new XMLParser({ parseTagValue: false, ignoreDeclaration: true, isArray })
  return attempt(() => Object.values(parser.parse(body.toString()))[0])
}

/** Signs all headers (Signature Version 4). @param now - epoch milliseconds */
export async function signAws(
  { url, ...request }: Omit<Outgoing, 'signal'> & { readonly url: URL; readonly service: string },
  { accessKeyId, secretAccessKey, sessionToken, region }: AwsCredentials,
  now: number,
): Promise<Record<string, string>> {
  const { AwsV4Signer } = await import('aws4fetch')
  const signer = new AwsV4Signer({
    ...request,
    url: url.href,
    accessKeyId,
    secretAccessKey,
    region,
    ...(sessionToken && { sessionToken }),
    datetime: new Date(now).toISOString().replace(/[-:]|\.\d{3}/g, ''),
    allHeaders: true,
  })
  return Object.fromEntries((await signer.sign()).headers)
}
