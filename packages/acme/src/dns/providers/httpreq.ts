import { Type } from 'typebox'
import { createApi, json } from './api.ts'
import { type CreateDnsProvider, type DnsRecord, defineOptions, Option } from './provider.ts'

export const HttpreqSchema = defineOptions('httpreq', {
  endpoint: Option.Text('Base URL of `/present` and `/cleanup`.'),
  username: Type.Optional(Option.Text('User name for Basic authentication.')),
  password: Type.Optional(Option.Secret('Password for Basic authentication.')),
  mode: Type.Enum(['default', 'raw'], {
    default: 'default',
    description: '`raw` sends the challenge instead of the record.',
  }),
})

const SUCCESS = Array.from({ length: 100 }, (_, index) => 200 + index)

/** The protocol of lego's `httpreq` provider, which many DNS bridges speak. */
export const createHttpreq: CreateDnsProvider<typeof HttpreqSchema> = (
  { endpoint, username = '', password, mode },
  { fetch },
) => {
  const basic = Buffer.from(`${username}:${password}`).toString('base64')
  const authorization = password === undefined ? undefined : `Basic ${basic}`
  const authorize = () => (authorization === undefined ? {} : { authorization })
  const api = createApi({ name: 'the DNS bridge', endpoint, fetch, authorize })

  async function post(path: string, record: DnsRecord, signal: AbortSignal): Promise<void> {
    const { name, value, domain, token, keyAuthorization: keyAuth } = record
    const body = mode === 'raw' ? { domain, token, keyAuth } : { fqdn: `${name}.`, value }
    await api.send(path, { content: json(body), accept: SUCCESS, signal })
  }

  return {
    present: (record, signal) => post('/present', record, signal),
    cleanUp: (record, signal) => post('/cleanup', record, signal),
  }
}
