import { Type } from 'typebox'
import { createApi, json, reasonIn } from './api.ts'
import { type CreateDnsProvider, defineOptions, findZone, Option, TTL_SECONDS } from './provider.ts'

export const CloudflareSchema = defineOptions('cloudflare', {
  apiToken: Option.Secret('API token with the permissions Zone:Read and DNS:Edit.'),
  endpoint: Option.Endpoint('https://api.cloudflare.com/client/v4'),
})

// The name becomes part of a path and must not leave it.
const Id = Type.String({ pattern: '^[0-9A-Za-z][0-9A-Za-z.-]{0,99}$' })
const ZonesSchema = Type.Object({ result: Type.Array(Type.Object({ id: Id })) })
const RecordsSchema = Type.Object({
  result: Type.Array(Type.Object({ id: Id, content: Type.String() })),
})
const DoneSchema = Type.Object({ success: Type.Literal(true) })
const reason = reasonIn(
  Type.Object({
    errors: Type.Array(Type.Object({ code: Type.Integer(), message: Type.String() })),
  }),
  ({ errors }) => errors.map(({ code, message }) => `${code} ${message}`).join(', '),
)

/** Cloudflare API v4, in which each value is a record of its own. */
export const createCloudflare: CreateDnsProvider<typeof CloudflareSchema> = (
  { apiToken, endpoint },
  { fetch },
) => {
  const authorize = () => ({ authorization: `Bearer ${apiToken}` })
  const api = createApi({ name: 'Cloudflare', endpoint, fetch, authorize, reason })

  /** Gives the path of the zone's records, and the identifiers of those with the value. */
  async function find(name: string, value: string, signal: AbortSignal) {
    const zone = await findZone(name, async (zone) => {
      const path = `/zones?name=${encodeURIComponent(zone)}`
      return (await api.read(ZonesSchema, path, { signal })).result[0]?.id
    })
    const records = `/zones/${zone}/dns_records`
    const query = `?type=TXT&name=${encodeURIComponent(name)}&per_page=100`
    const { result } = await api.read(RecordsSchema, records + query, { signal })
    const matches = result.filter(({ content }) => content === value || content === `"${value}"`)
    return { records, ids: matches.map(({ id }) => id) }
  }

  return {
    check: async (name, signal) => void (await find(name, '', signal)),
    async present({ name, value }, signal) {
      const { records, ids } = await find(name, value, signal)
      if (ids.length > 0) return
      const content = json({ type: 'TXT', name, content: `"${value}"`, ttl: TTL_SECONDS })
      await api.read(DoneSchema, records, { content, signal })
    },
    async cleanUp({ name, value }, signal) {
      const { records, ids } = await find(name, value, signal)
      for (const id of ids)
        await api.send(`${records}/${id}`, { method: 'DELETE', accept: [200, 404], signal })
    },
  }
}
