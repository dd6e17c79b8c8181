import type { ProviderDeps } from '@gatehouse/identity-providers'
import type { BoundedFetch } from '@gatehouse/net'
import { Type } from 'typebox'
import { Value } from 'typebox/value'

/** The part of Traefik's document that is read. */
const Routers = Type.Record(Type.String(), Type.Object({ rule: Type.String() }))
const Document = Type.Object({ http: Type.Object({ routers: Type.Optional(Routers) }) })
/** The time for which an answer counts, in ms: a page does not ask for each of its readers. */
const FRESH = 5_000
/** The time that a page waits for an answer, in ms. */
const PATIENCE = 1_000

/** The apps that labels of containers name, as `docker-reader` tells them. While it does not answer, those of before count. */
export function readLabelledApps(
  url: string | undefined,
  { clock, log, createFetch }: ProviderDeps,
) {
  const fetch = url === undefined ? undefined : createFetch({ timeoutMs: PATIENCE })
  let hosts: readonly string[] = []
  let reading: Promise<void> | undefined
  let readAt = Number.NEGATIVE_INFINITY
  let isAway = false

  async function read(fetch: BoundedFetch, from: string): Promise<void> {
    try {
      const { body } = await fetch(from, { json: true })
      const { routers = {} } = Value.Parse(Document, JSON.parse(String(body))).http
      hosts = Object.values(routers).flatMap(
        ({ rule }) => /^Host\(`([^`]+)`\)$/.exec(rule)?.[1] ?? [],
      )
      isAway = false
    } catch (error) {
      if (!isAway) log.warn({ err: error }, 'the apps of labels cannot be read: see `appsFrom`')
      isAway = true
    }
  }
  return {
    async hosts(): Promise<readonly string[]> {
      const now = clock.now()
      if (fetch && url !== undefined && now - readAt >= FRESH) {
        readAt = now
        reading = read(fetch, url)
      }
      await reading
      return hosts
    },
    close: async () => fetch?.close(),
  }
}
