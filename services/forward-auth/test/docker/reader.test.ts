import { type BoundedFetch, type FetchInit, NetError } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import type { Container } from '../../src/docker/app.ts'
import { buildReader, runReader } from '../../src/docker/reader.ts'
import { composed, containerOf, type Labels, SECRET, ZONE } from './containers.ts'

const appOf = (service: string, more: Labels = {}, changes: Partial<Container> = {}) =>
  containerOf({ 'traefik.enable': 'true', ...composed(service), ...more }, changes)

/** A reader, and the Docker that it asks. */
function start(t: Test) {
  const docker = {
    containers: [] as unknown[],
    images: new Map<string, Labels | null | NetError>(),
    outage: undefined as Error | undefined,
    asked: [] as string[],
    bounds: [] as (number | undefined)[],
  }
  const answer = (value: unknown) => ({
    status: 200,
    headers: {},
    body: Buffer.from(JSON.stringify(value)),
  })
  const fetch = async (url: URL | string, { method = 'GET', maxBytes, signal }: FetchInit = {}) => {
    const { pathname } = new URL(url)
    docker.asked.push(`${method} ${pathname}`)
    docker.bounds.push(signal && maxBytes)
    if (docker.outage) throw docker.outage
    if (pathname === '/containers/json') return answer(docker.containers)
    const labels = docker.images.get(decodeURIComponent(pathname.split('/')[2] ?? ''))
    if (labels instanceof Error) throw labels
    return answer({ Config: { Env: [SECRET], Labels: labels } })
  }
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = createLogger({ level: 'info', format: 'json', name: 'docker-reader', stream })
  const clock = { now: 1_000_000 }
  const app = buildReader(ZONE, {
    log,
    docker: Object.assign(fetch, { close: async () => {} }) as BoundedFetch,
    now: () => clock.now,
  })
  t.teardown(() => app.close())
  const ask = async () => {
    const { statusCode, body } = await app.inject('/')
    t.notMatch(body, SECRET)
    t.notMatch(lines.join(''), SECRET)
    return { status: statusCode, hosts: Object.keys(JSON.parse(body).http.routers ?? {}), body }
  }
  const warned = () => lines.splice(0).map((line) => JSON.parse(line).msg as string)
  return { app, docker, clock, ask, warned }
}

const failed = new NetError('NET_FETCH_FAILED', 'GET http://docker/containers/json failed: ENOENT')

t.test('it asks Docker for two things, bounded, and tells hosts and addresses', async (t) => {
  const { app, docker, ask, warned } = start(t)
  docker.containers = [appOf('notes'), appOf('tv', { 'traefik.http.routers.x.priority': '9' })]
  const { status, hosts } = await ask()
  t.strictSame([status, hosts], [200, ['notes.lab.home.arpa', 'tv.lab.home.arpa']])
  const image = `GET /images/${encodeURIComponent(`sha256:${'a'.repeat(64)}`)}/json`
  t.strictSame(docker.asked, ['GET /containers/json', image])
  t.ok(
    docker.bounds.every((bound) => Number(bound) > 0),
    'each has an end in bytes and in time',
  )
  t.match(warned(), [/traefik\.http\.routers\.x\.priority$/])
  await ask()
  t.strictSame(docker.asked.slice(2), ['GET /containers/json'], 'an image is what its digest says')
  t.strictSame(warned(), [], 'a warning is logged once')
  docker.containers = []
  t.strictSame((await ask()).hosts, [])
  docker.containers = [appOf('notes')]
  await ask()
  t.equal(docker.asked.at(-1), image, 'what no container has is forgotten')
  for (const url of ['/containers/json', '/version', '/images/json'])
    t.equal((await app.inject(url)).statusCode, 404, url)
  t.equal((await app.inject({ method: 'POST', url: '/' })).statusCode, 404)
})

t.test('while Docker does not answer, apps keep their routes for 30 seconds', async (t) => {
  const { docker, clock, ask, warned } = start(t)
  docker.outage = failed
  t.equal((await ask()).status, 503, 'Traefik keeps what it had before')
  t.match(warned(), [/^Docker does not answer: .*ENOENT/])
  docker.outage = undefined
  docker.containers = [appOf('notes')]
  t.strictSame((await ask()).hosts, ['notes.lab.home.arpa'])
  for (const [outage, containers] of [
    [failed, []],
    [undefined, { message: 'no list' }],
  ] as const) {
    const { containers: before } = docker
    Object.assign(docker, { outage, containers })
    clock.now += 30_000
    t.strictSame((await ask()).hosts, ['notes.lab.home.arpa'], 'kept')
    clock.now += 1
    const { status, hosts } = await ask()
    t.strictSame([status, hosts], [200, []], 'an address may be that of another app now')
    t.equal(warned().length, 1)
    Object.assign(docker, { outage: undefined, containers: before })
    t.strictSame((await ask()).hosts, ['notes.lab.home.arpa'])
  }
})

t.test('a container of an unknown form is about itself alone', async (t) => {
  const { docker, ask, warned } = start(t)
  const odd: unknown[] = [null, 'tv', {}, { ...appOf('tv'), Labels: undefined }]
  for (const one of [...odd, { ...appOf('tv'), NetworkSettings: { Networks: null } }]) {
    docker.containers = [one, appOf('notes')]
    t.strictSame((await ask()).hosts, ['notes.lab.home.arpa'], JSON.stringify(one))
  }
  t.strictSame(warned(), ['a container has an unknown form'])
})

t.test('an image that cannot be looked at is about its own containers', async (t) => {
  const { docker, ask, warned } = start(t)
  docker.containers = [appOf('notes', {}, { ImageID: 'sha256:gone' }), appOf('tv')]
  for (const code of ['NET_FETCH_STATUS', 'NET_FETCH_TOO_LARGE'] as const) {
    docker.images.set('sha256:gone', new NetError(code, 'no'))
    t.strictSame((await ask()).hosts, ['tv.lab.home.arpa'], code)
  }
  t.match(warned(), [/ignored: traefik\.enable$/])
  docker.images.set('sha256:gone', failed)
  t.strictSame((await ask()).hosts, ['tv.lab.home.arpa'], 'Docker itself fails')
  t.match(warned(), [/^Docker does not answer/])
  docker.images.set('sha256:gone', null)
  t.strictSame((await ask()).hosts, ['notes.lab.home.arpa', 'tv.lab.home.arpa'])
})

t.test('a host stays with the app that had it', async (t) => {
  const { docker, ask, warned } = start(t)
  const tv = { 'traefik.http.routers.x.rule': 'Host(`tv.lab.home.arpa`)' }
  const [first, second] = [appOf('tv', {}, { Created: 9 }), appOf('shop', tv, { Created: 5 })]
  docker.containers = [first]
  const { body } = await ask()
  docker.containers = [first, second]
  t.equal((await ask()).body, body, 'although its container is younger')
  t.match(warned(), [/has no route: another app has tv\.lab\.home\.arpa: choose another$/])
  docker.containers = [second, { ...first, Status: 'Exited (0) 1 second ago' }]
  t.strictSame((await ask()).hosts, [])
  docker.containers = [second]
  t.strictSame((await ask()).hosts, ['tv.lab.home.arpa'], 'until no container of it is left')
})

t.test('at most 500 containers, the oldest', async (t) => {
  const { docker, ask, warned } = start(t)
  docker.containers = Array.from({ length: 501 }, (_, index) =>
    appOf(`app${index}`, {}, { Created: 1_000 - index }),
  )
  const { hosts } = await ask()
  t.equal(hosts.length, 500)
  t.notOk(hosts.includes('app0.lab.home.arpa'))
  t.strictSame(warned(), ['only 500 containers are read'])
  docker.containers = [appOf('notes', { [`traefik.${'x'.repeat(100_000)}`]: '' })]
  await ask()
  t.ok((warned()[0]?.length ?? 0) <= 1_000, 'a warning has an end too')
})

t.test('requests at the same time share one look', async (t) => {
  const { docker, ask } = start(t)
  docker.containers = [appOf('notes')]
  const answers = await Promise.all(Array.from({ length: 50 }, ask))
  t.ok(answers.every(({ hosts }) => hosts.length === 1))
  t.equal(docker.asked.length, 2)
})

t.test('a host that is no host is refused at the start', async (t) => {
  for (const zone of [
    { domain: 'Lab.home.arpa', reserved: [] },
    { domain: '', reserved: [] },
    { domain: 'lab.home.arpa', reserved: ['auth'] },
    { domain: 'lab.home.arpa', reserved: ['AUTH.lab.home.arpa'] },
    { domain: 'lab.home.arpa', reserved: ['auth.example.com'] },
  ])
    await t.rejects(runReader(zone), { message: /must be a host in lower case/ })
})
