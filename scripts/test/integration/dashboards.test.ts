// The dashboards, with Debian's Prometheus between them and the services.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { freePorts } from '../../free-ports.ts'
import { ROOT } from '../markdown.ts'
import { programOf } from '../program.ts'
import { expectWarnings } from '../quiet.ts'
import { type Running, startRunning } from '../running.ts'
import { until } from '../until.ts'

expectWarnings(t, 'FWA_PROVIDER_UNREACHABLE', 'an event was not accepted')

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly uid: string }
  readonly gridPos: {
    readonly x: number
    readonly y: number
    readonly w: number
    readonly h: number
  }
  readonly targets?: readonly { readonly expr: string; readonly datasource: { uid: string } }[]
}

interface Dashboard {
  readonly __requires: readonly Readonly<Record<'type' | 'id' | 'version', string>>[]
  readonly uid: string
  readonly title: string
  readonly id: null
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; query: unknown }[]
  }
}

const SERVICES = ['cert-service', 'forward-auth'] as const
type Service = (typeof SERVICES)[number]

const read = (file: string) => readFileSync(join(ROOT, 'examples/monitoring', file), 'utf8')
const dashboardOf = (service: Service): Dashboard => JSON.parse(read(`${service}.dashboard.json`))
const expressionsOf = ({ panels }: Dashboard) =>
  panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))

/** What is empty, since no request fails and cert-service lacks nothing. */
const EMPTY = new Set([
  'cert-service: Errors by route',
  'forward-auth: Errors by route',
  'cert-service: Degraded parts',
])

t.test('every dashboard can be imported as it is', async (t) => {
  const guide = readFileSync(join(ROOT, 'docs/monitoring.md'), 'utf8')
  const files = globSync('*.dashboard.json', { cwd: join(ROOT, 'examples/monitoring') })
  t.strictSame(
    files.toSorted(),
    SERVICES.map((service) => `${service}.dashboard.json`),
  )
  for (const service of SERVICES) {
    const dashboard = dashboardOf(service)
    const { id, uid, schemaVersion, panels, templating } = dashboard
    t.equal(id, null, 'Grafana gives it one')
    // As Grafana itself exports a dashboard whose data source is a variable, for grafana.com.
    t.match(dashboard, { __inputs: { length: 0 }, __elements: {} })
    const panelTypes = [...new Set(panels.map(({ type }) => type))].filter((type) => type !== 'row')
    const parts = [
      'datasource prometheus',
      'grafana grafana',
      ...panelTypes.map((type) => `panel ${type}`),
    ]
    const required = dashboard.__requires.map(({ type, id }) => `${type} ${id}`)
    t.strictSame(required.sort(), parts.sort())
    const [grafana] = dashboard.__requires
    t.match(guide, `In Grafana (${grafana?.version.replace(/\.0$/, '')} or newer)`)
    t.equal(uid, `gatehouse-${service}`)
    t.ok(schemaVersion >= 39)
    const [first, ...variables] = templating.list
    t.match(first, { name: 'datasource', type: 'datasource', query: 'prometheus' })
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
    for (const { type, title, description, datasource, targets = [] } of panels) {
      if (type === 'row') continue
      t.match(description, /\w\.$/, title)
      t.ok(targets.length > 0, title)
      for (const { uid } of [datasource, ...targets.map(({ datasource }) => datasource)].map(
        (one) => one ?? { uid: '' },
      ))
        t.equal(uid, '$' + '{datasource}', title)
    }
    const used = JSON.stringify(panels).match(/(?<=\$)(?!__|\{)\w+/g) ?? []
    for (const name of new Set(used))
      t.ok(
        variables.some((one) => one.name === name),
        name,
      )
    t.strictSame(overlaps(panels), [])
  }
})

/** Pairs of panels that lie on each other, or beside the grid of 24 columns. */
function overlaps(panels: readonly Panel[]): string[] {
  return panels.flatMap((one, at) => {
    const a = one.gridPos
    const beside = a.x < 0 || a.x + a.w > 24 ? [one.title] : []
    const others = panels.slice(at + 1).filter(({ gridPos: b }) => {
      return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
    })
    return [...beside, ...others.map(({ title }) => `${one.title}, ${title}`)]
  })
}

const METRIC = /\b(?:gatehouse|http_request|process|nodejs)_\w+|\bup\b/g
const metricsOf = (expr: string) => expr.match(METRIC) ?? []

t.test('every metric that an alert names has a panel', async (t) => {
  for (const service of SERVICES) {
    const shown = new Set(
      expressionsOf(dashboardOf(service)).flatMap(({ expr }) => metricsOf(expr)),
    )
    const { groups } = parse(read(`${service}.rules.yaml`))
    for (const { alert, expr } of groups[0].rules)
      for (const name of metricsOf(expr)) t.ok(shown.has(name), `${alert}: ${name}`)
  }
})

t.test('the services have every metric, and every panel shows something', async (t) => {
  const [certs = 0, auth = 0, port = 0] = await freePorts(3)
  const targets = { 'cert-service': certs, 'forward-auth': auth }
  const urls = await startServices(t, targets)
  for (const service of SERVICES) {
    const answer = await fetch(`http://127.0.0.1:${targets[service]}/metrics`)
    const types = (await answer.text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)
    const known = new Set(['up'])
    for (const [, name = '', type] of types)
      for (const suffix of type === 'histogram' ? ['_bucket', '_count', '_sum'] : [''])
        known.add(name + suffix)
    const rules = parse(read(`${service}.rules.yaml`)).groups[0].rules
    const asked = [...expressionsOf(dashboardOf(service)), ...rules] as { expr: string }[]
    const names = new Set(asked.flatMap(({ expr }) => metricsOf(expr)))
    t.ok(names.size > 10)
    for (const name of names) t.ok(known.has(name), `${service}: ${name}`)
  }

  const ask = await startPrometheus(t, port, targets)
  await until(async () => (await ask('sum(up)'))?.[0]?.value[1] === '2')
  await useServices(urls)
  // A rate takes two samples.
  const sampled = `count by (job) (count_over_time(http_request_duration_seconds_count[1m]) > 2)`
  await until(async () => (await ask(sampled))?.length === 2)
  // The provider of forward-auth, which nobody can reach.
  await until(async () => (await ask('gatehouse_degraded'))?.length === 1)
  for (const service of SERVICES)
    for (const { title, expr } of expressionsOf(dashboardOf(service))) {
      const isEmpty = EMPTY.has(`${service}: ${title}`) && !expr.includes('vector')
      const count = async () => (await ask(substituted(expr, service)))?.length
      // A scrape that takes longer than the interval hides all of a service until the next one.
      if (!isEmpty) await until(async () => (await count()) !== 0)
      const found = await count()
      t.not(found, undefined, `${service}, ${title}: ${expr}`)
      if (isEmpty) t.equal(found, 0, `${title}: ${expr}`)
    }
})

/** With values for the variables, as Grafana puts them in. */
function substituted(expr: string, service: Service): string {
  return expr
    .replaceAll(/\$__(?:rate_interval|range|interval)/g, '1m')
    .replaceAll('$job', service)
    .replaceAll(/\$(?:instance|portal)/g, '.*')
}

const KEY = 'a-key-of-sixteen-characters'

async function startServices(t: Test, metrics: Readonly<Record<Service, number>>) {
  const configs: Readonly<Record<Service, string>> = {
    'cert-service': `server: { port: 0, tls: off }
storage: { path: data, masterKeyFile: master.key }
issuers: [{ name: public, type: acme, directory: "http://127.0.0.1:1/", names: [example.org],
  challenges: [{ type: tls-alpn-01, listen: { port: 0 } }] }]
auth: { psk: { key: ${KEY} } }
events: { receivers: [{ name: phone, type: ntfy, url: "http://127.0.0.1:1/topic" }] }
`,
    'forward-auth': `server: { port: 0 }
domains: [{ domain: example.com, authHost: auth.example.com }]
session: { keys: [{ secret: ${KEY}-and-more-of-it }] }
portals: [{ name: main, providers: [{ type: openIDConnect, name: corp,
  issuerUrl: "http://localhost:1", clientId: a, clientSecret: b }] }]
`,
  }
  const folder = testFolder(t, { prometheus: {} })
  const running = SERVICES.map((service): [Service, Running] => {
    const file = join(folder, `${service}.yaml`)
    writeFileSync(file, `${configs[service]}metrics: { port: ${metrics[service]} }\n`)
    return [service, startRunning(t, [...programOf(service), 'serve', '--config', file])]
  })
  const urls = running.map(async ([service, { said }]) => [service, (await said('ready')).url])
  return Object.fromEntries(await Promise.all(urls)) as Record<Service, string>
}

/** Whatever makes each counter and each duration begin. */
async function useServices(urls: Readonly<Record<Service, string>>): Promise<void> {
  await fetch(`${urls['cert-service']}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
    body: '{ "domain": "app.example.com" }',
  })
  await fetch(`${urls['forward-auth']}/portals/main`, {
    headers: {
      'x-forwarded-method': 'GET',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'app.example.com',
      'x-forwarded-uri': '/',
      'x-forwarded-for': '203.0.113.7',
    },
  })
}

type Vector = readonly { readonly value: readonly [number, string] }[]

/** Starts Prometheus. Gives what asks it: undefined if it does not understand. */
async function startPrometheus(
  t: Test,
  port: number,
  targets: Readonly<Record<Service, number>>,
): Promise<(expr: string) => Promise<Vector | undefined>> {
  const folder = join(t.testdirName, 'prometheus')
  const jobs = Object.entries(targets).map(([job_name, at]) => ({
    job_name,
    static_configs: [{ targets: [`127.0.0.1:${at}`] }],
  }))
  const file = join(folder, 'prometheus.yml')
  writeFileSync(file, stringify({ global: { scrape_interval: '250ms' }, scrape_configs: jobs }))
  const child = spawn(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const url = `http://127.0.0.1:${port}/api/v1/query`
  return async (query) => {
    const answer = await fetch(url, { method: 'POST', body: new URLSearchParams({ query }) }).catch(
      () => undefined,
    )
    return answer?.ok
      ? ((await answer.json()) as { data: { result: Vector } }).data.result
      : undefined
  }
}
