import { type BoundedFetch, createFetch, isUnder, type NetError, parseHost } from '@gatehouse/net'
import { systemClock } from '@gatehouse/service-kit/clock'
import { appOptions } from '@gatehouse/service-kit/http'
import { runApp } from '@gatehouse/service-kit/lifecycle'
import { UsageError } from '@gatehouse/service-kit/program'
import { createLogger, type Logger } from '@gatehouse/service-kit/telemetry'
import Fastify, { type FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { Container, Labels, readApp, routeApps, type Zone } from './app.ts'

const LIST = `/containers/json?all=true&filters=${encodeURIComponent('{"label":["traefik.enable"]}')}`
const Containers = Type.Array(Type.Unknown())
const ImageLabels = Type.Optional(Type.Union([Labels, Type.Null()]))
const Image = Type.Object({ Config: Type.Object({ Labels: ImageLabels }) })
const [MAX_LIST_BYTES, MAX_IMAGE_BYTES] = [16 * 1_048_576, 262_144]
const MAX_WARNING = 1_000
/** The time for all requests of one answer, in ms: Traefik waits for 5 seconds. */
const PATIENCE_MS = 4_000
/** Docker may give the address of a container that has stopped to another. */
const MAX_AGE_MS = 30_000

/** Starts the reader, which a signal stops, and prints nothing. */
export async function runReader(zone: Zone): Promise<string> {
  for (const host of [zone.domain, ...zone.reserved]) {
    const parsed = parseHost(host)
    if (parsed?.name !== host || !isUnder(zone.domain, parsed))
      throw new UsageError(`${host} must be a host in lower case, and below the domain`)
  }
  const log = createLogger({ level: 'info', format: 'auto', name: 'docker-reader' })
  const docker = createFetch({ socketPath: '/var/run/docker.sock' })
  const app = buildReader(zone, { log, docker, now: systemClock.now })
  await runApp({ app, log, host: '0.0.0.0', port: 2375 })
  return ''
}

/** Makes what answers Traefik's HTTP provider: the routes of 30 seconds at most, and 503 before there are any. */
export function buildReader(
  zone: Zone,
  { log, docker, now }: { log: Logger; docker: BoundedFetch; now(): number },
): FastifyInstance {
  const app = Fastify(appOptions(log))
  const images = new Map<string, Record<string, string>>()
  const none = { ...routeApps([], new Map()), time: Number.NEGATIVE_INFINITY }
  let latest = none
  let previousWarnings = new Set<string>()
  let reading: Promise<void> | undefined

  async function ask<T extends Type.TSchema>(path: string, schema: T, init: object) {
    const { body } = await docker(`http://docker${path}`, init)
    return Value.Parse(schema, JSON.parse(String(body)))
  }
  /** Reads the labels of images, whose IDs are digests. Without them, no label of a container counts. */
  async function readImages(ids: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    for (const id of images.keys()) if (!ids.has(id)) images.delete(id)
    for (const id of ids)
      if (!images.has(id))
        try {
          const init = { signal, maxBytes: MAX_IMAGE_BYTES }
          const { Config } = await ask(`/images/${encodeURIComponent(id)}/json`, Image, init)
          images.set(id, Config.Labels ?? {})
        } catch (error) {
          if (/TIMEOUT|FAILED/.test((error as NetError).code)) throw error
        }
  }

  async function update(): Promise<void> {
    const time = now()
    const signal = AbortSignal.timeout(PATIENCE_MS)
    const entries = await ask(LIST, Containers, { signal, maxBytes: MAX_LIST_BYTES })
    const wellFormed = entries.filter((entry) => Value.Check(Container, entry))
    wellFormed.sort((a, b) => a.Created - b.Created || (a.Id < b.Id ? -1 : 1))
    const containers = wellFormed.slice(0, 500)
    await readImages(new Set(containers.map(({ ImageID }) => ImageID)), signal)
    const readings = containers.map((container) =>
      readApp(container, images.get(container.ImageID), zone),
    )
    const apps = readings.flatMap(({ app }) => app ?? [])
    latest = { ...routeApps(apps, latest.holders), time }
    if (wellFormed.length < entries.length) latest.warnings.push('a container has an unknown form')
    if (wellFormed.length > containers.length) latest.warnings.push('only 500 containers are read')
    warn([...readings.flatMap(({ warnings }) => warnings), ...latest.warnings])
  }
  function warn(warnings: readonly string[]): void {
    for (const warning of warnings)
      if (!previousWarnings.has(warning)) log.warn(warning.slice(0, MAX_WARNING))
    previousWarnings = new Set(warnings)
  }
  app.get('/', async (_request, reply) => {
    reading ??= update()
      .catch(({ message }: Error) => warn([`Docker does not answer: ${message}`]))
      .finally(() => {
        reading = undefined
      })
    await reading
    if (latest === none) reply.code(503)
    return (now() - latest.time > MAX_AGE_MS ? none : latest).document
  })
  app.addHook('onClose', () => docker.close())
  return app
}
