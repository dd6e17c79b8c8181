import { type Static, Type } from 'typebox'
import { type ApiRequest, call, callJson, endpointUrl, parseJson, readReason } from './api.ts'
import {
  commonOptions,
  type DnsProvider,
  type DnsProviderDeps,
  Endpoint,
  findZone,
  Secret,
  TTL_SECONDS,
} from './provider.ts'

export const CloudflareSchema = Type.Object({
  type: Type.Literal('cloudflare'),
  ...commonOptions,
  apiToken: Secret('API token with the permissions Zone:Read and DNS:Edit.'),
  endpoint: Endpoint('https://api.cloudflare.com/client/v4'),
})

// Becomes part of a path and must not leave it.
const Id = Type.String({ pattern: '^[0-9A-Za-z][0-9A-Za-z.-]{0,99}$' })
const ZonesSchema = Type.Object({ result: Type.Array(Type.Object({ id: Id })) })
const RecordsSchema = Type.Object({
  result: Type.Array(Type.Object({ id: Id, content: Type.String() })),
})
const RefusalSchema = Type.Object({
  errors: Type.Array(Type.Object({ code: Type.Integer(), message: Type.String() })),
})
const DoneSchema = Type.Object({ success: Type.Literal(true) })

/** Cloudflare API v4, in which each value is a record of its own. */
export function createCloudflare(
  { apiToken, endpoint }: Static<typeof CloudflareSchema>,
  { fetch }: DnsProviderDeps,
): DnsProvider {
  const request = (
    path: string,
    init: Pick<ApiRequest, 'method' | 'body' | 'signal'>,
  ): ApiRequest => ({
    api: 'Cloudflare',
    url: endpointUrl(endpoint, path),
    ...init,
    headers: {
      authorization: `Bearer ${apiToken}`,
      ...(init.body !== undefined && { 'content-type': 'application/json' }),
    },
    reason: refusal,
  })

  const findZoneId = (name: string, signal: AbortSignal) =>
    findZone(name, async (zone) => {
      const path = `/zones?name=${encodeURIComponent(zone)}`
      const { result } = await callJson(fetch, ZonesSchema, request(path, { signal }))
      return result[0]?.id
    })

  /** Gives the path of the zone's records, and the identifiers of those with the value. */
  async function find(name: string, value: string, signal: AbortSignal) {
    const records = `/zones/${await findZoneId(name, signal)}/dns_records`
    const query = `?type=TXT&name=${encodeURIComponent(name)}&per_page=100`
    const { result } = await callJson(fetch, RecordsSchema, request(records + query, { signal }))
    const own = result.filter(({ content }) => content === value || content === `"${value}"`)
    return { records, ids: own.map(({ id }) => id) }
  }

  return {
    check: async (name, signal) => void (await find(name, '', signal)),
    async present({ name, value }, signal) {
      const { records, ids } = await find(name, value, signal)
      if (ids.length > 0) return
      const body = JSON.stringify({ type: 'TXT', name, content: `"${value}"`, ttl: TTL_SECONDS })
      await callJson(fetch, DoneSchema, request(records, { method: 'POST', body, signal }))
    },
    async cleanUp({ name, value }, signal) {
      const { records, ids } = await find(name, value, signal)
      for (const id of ids) {
        const path = `${records}/${id}`
        await call(fetch, { ...request(path, { method: 'DELETE', signal }), accept: [200, 404] })
      }
    },
  }
}

const refusal = (body: Buffer) =>
  readReason(parseJson(body), RefusalSchema, ({ errors }) =>
    errors.map(({ code, message }) => `${code} ${message}`).join(', '),
  )
