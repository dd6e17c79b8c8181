import { type Static, Type } from 'typebox'
import { call, endpointUrl } from './api.ts'
import {
  commonOptions,
  type DnsProvider,
  type DnsProviderDeps,
  type DnsRecord,
  Secret,
  Text,
} from './provider.ts'

export const HttpreqSchema = Type.Object({
  type: Type.Literal('httpreq'),
  ...commonOptions,
  endpoint: Text('Base URL of `/present` and `/cleanup`.'),
  username: Type.Optional(Text('User name for Basic authentication.')),
  password: Type.Optional(Secret('Password for Basic authentication.')),
  mode: Type.Enum(['default', 'raw'], {
    default: 'default',
    description: '`raw` sends the challenge instead of the record.',
  }),
})

const SUCCESS = Array.from({ length: 100 }, (_, index) => 200 + index)

/** The protocol of lego's `httpreq` provider, which many DNS bridges speak. */
export function createHttpreq(
  { endpoint, username = '', password, mode }: Static<typeof HttpreqSchema>,
  { fetch }: DnsProviderDeps,
): DnsProvider {
  const basic = Buffer.from(`${username}:${password}`).toString('base64')

  async function post(path: string, record: DnsRecord, signal: AbortSignal): Promise<void> {
    await call(fetch, {
      api: 'the DNS bridge',
      url: endpointUrl(endpoint, path),
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(password !== undefined && { authorization: `Basic ${basic}` }),
      },
      body: JSON.stringify(mode === 'raw' ? rawBody(record) : defaultBody(record)),
      signal,
      accept: SUCCESS,
    })
  }

  return {
    present: (record, signal) => post('/present', record, signal),
    cleanUp: (record, signal) => post('/cleanup', record, signal),
  }
}

const defaultBody = ({ name, value }: DnsRecord) => ({ fqdn: `${name}.`, value })
const rawBody = ({ domain, token, keyAuthorization }: DnsRecord) => ({
  domain,
  token,
  keyAuth: keyAuthorization,
})
