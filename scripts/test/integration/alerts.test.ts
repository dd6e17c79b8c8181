// The alert rules, as promtool reads them: Debian's package `prometheus`.
import { execFile } from 'node:child_process'
import { copyFileSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { portalOf, startApp, yamlOf } from '../../../services/forward-auth/test/app.ts'
import { CHECK_PATHS } from '../../../services/forward-auth/test/proxies/routes.ts'
import { anchorsOf, ROOT, readDocument, readDocuments } from '../markdown.ts'

const RULE_FILES = globSync('examples/monitoring/*.rules.yaml', { cwd: ROOT }).sort()

/** The routes of checks, which every alert on checks has to know. */
const CHECK_ROUTES = CHECK_PATHS.map((path) => `/portals/:portal${path}`)

interface Series {
  readonly series: string
  readonly values: string
}

/** How long each case lasts: longer than the rules look back, but for one that can do with less. */
const MINUTES = 125

const gauge = (series: string, value: number | string): Series => ({
  series,
  values: `${value}x${MINUTES}`,
})
/** One that counts on by so many each minute. */
const counter = (series: string, perMinute: number): Series => ({
  series,
  values: `0+${perMinute}x${MINUTES}`,
})
/** One that counts so many after an hour, all at once. */
const burst = (series: string, count: number): Series => ({
  series,
  values: `0x60 ${count}x64`,
})
const replicas = (job: string, ...up: readonly number[]): readonly Series[] =>
  up.map((value, at) => gauge(`up{job="${job}",instance="${at}"}`, value))
const certificate = (metric: string, value: number, instance = 'a'): Series =>
  gauge(
    `gatehouse_certs_${metric}{domain="a.test",issuer="ca",way="acme",instance="${instance}"}`,
    value,
  )
const errors = (job: string, perMinute: number, status = '5xx'): Series =>
  counter(
    `http_request_duration_seconds_count{job="${job}",route="/x",status="${status}"}`,
    perMinute,
  )
const checks = (route: string, le = '0.5'): readonly Series[] =>
  ['0.1', '0.5', '+Inf'].map((bound) =>
    counter(
      `http_request_duration_seconds_bucket{route="${route}",le="${bound}"}`,
      bound === '+Inf' || bound === '0.5' || le === '0.1' ? 60 : 0,
    ),
  )
const failed = (kind: string, count: number) =>
  burst(`gatehouse_certs_failed_total{class="${kind}"}`, count)
/** When an intermediate ends, for tests that begin at the Unix time 0. */
const intermediate = (days: number) =>
  gauge('gatehouse_certs_intermediate_end_seconds', days * 86_400)
const root = (days: number) => gauge('gatehouse_certs_root_end_seconds', days * 86_400)

type Cases = Readonly<Record<string, readonly Series[]>>

/** What both services are watched for. */
const common = (
  job: string,
  name: string,
): Readonly<Record<string, [fires: Cases, quiet: Cases]>> => ({
  [`${name}Down`]: [
    {
      'it is down': [gauge(`up{job="${job}"}`, 0)],
      'it is not scraped at all': [gauge('up{job="other"}', 1)],
      'all replicas are down': replicas(job, 0, 0),
    },
    { 'it is up': replicas(job, 1), 'two replicas of three are up': replicas(job, 0, 1, 1) },
  ],
  [`${name}ReplicaDown`]: [
    { 'one replica of three is down': replicas(job, 0, 1, 1) },
    { 'all are up': replicas(job, 1, 1), 'all are down': replicas(job, 0, 0) },
  ],
  [`${name}StoreAway`]: [
    {
      'the database is away': [gauge(`gatehouse_degraded{job="${job}",part="store"}`, 1)],
      'it is not ready': [gauge(`gatehouse_ready{job="${job}"}`, 0)],
    },
    {
      'another part is away': [
        gauge(`gatehouse_degraded{job="${job}",part="issuer public"}`, 1),
        gauge(`gatehouse_ready{job="${job}"}`, 1),
      ],
    },
  ],
  [`${name}Degraded`]: [
    { 'a part is away': [gauge(`gatehouse_degraded{job="${job}",part="provider corp"}`, 1)] },
    {
      'the store is away': [gauge(`gatehouse_degraded{job="${job}",part="store"}`, 1)],
      'a part is away for a moment': [
        { series: `gatehouse_degraded{job="${job}",part="x"}`, values: `_x121 1x3` },
      ],
      ...(job === 'cert-service' && {
        'the root ends within a year': [
          gauge(`gatehouse_degraded{job="${job}",part="ca-root"}`, 1),
        ],
      }),
    },
  ],
  [`${name}ConfigurationRefused`]: [
    { 'the last reload was refused': [gauge(`gatehouse_config_reload_success{job="${job}"}`, 0)] },
    { 'it was taken up': [gauge(`gatehouse_config_reload_success{job="${job}"}`, 1)] },
  ],
  [`${name}Errors`]: [
    { 'ten errors a minute': [errors(job, 10)] },
    { 'one error a minute': [errors(job, 1)], refusals: [errors(job, 600, '4xx')] },
  ],
})

/** For each alert, when it has to fire and when not, as it is after two hours. */
const CASES: Readonly<Record<string, [fires: Cases, quiet: Cases]>> = {
  ...common('cert-service', 'CertService'),
  ...common('forward-auth', 'ForwardAuth'),
  CertificateEnded: [
    {
      'it has expired': [certificate('expiry_seconds', 0)],
      'it expired an hour ago, told by two replicas': [
        certificate('expiry_seconds', -3_600, 'a'),
        certificate('expiry_seconds', -3_600, 'b'),
      ],
    },
    { 'a minute is left': [certificate('expiry_seconds', 60)] },
  ],
  CertificateEndsSoon: [
    {
      'it was not renewed, told by two replicas': [
        certificate('remaining_ratio', 0.15, 'a'),
        certificate('remaining_ratio', 0.15, 'b'),
      ],
    },
    { 'one of a day, half of it over': [certificate('remaining_ratio', 0.5)] },
  ],
  CertificateTakenOver: [
    { 'a name has moved': [gauge('gatehouse_certs_covered{by="other"}', 1)] },
    { 'a machine was built anew': [gauge('gatehouse_certs_covered{by="caller"}', 5)] },
  ],
  CertificateNotServed: [
    {
      'the server of one of two addresses was not reloaded, told by two replicas': [
        gauge('gatehouse_certs_probe_old_seconds{domain="a.test",port="443",instance="a"}', 7_260),
        gauge('gatehouse_certs_probe_old_seconds{domain="a.test",port="443",instance="b"}', 7_260),
      ],
    },
    {
      'for an hour': [
        gauge('gatehouse_certs_probe_old_seconds{domain="a.test",port="443"}', 3_600),
      ],
      'a server is silent': [gauge('gatehouse_certs_probes{state="unreachable"}', 5)],
    },
  ],
  IssuingFails: [
    { 'a CA refuses again and again': [counter('gatehouse_certs_failed_total{class="dns"}', 1)] },
    {
      'a single failure': [failed('dns', 1)],
      'a limit': [counter('gatehouse_certs_failed_total{class="limit"}', 1)],
    },
  ],
  CaLimitReached: [
    { 'a limit': [counter('gatehouse_certs_failed_total{class="limit"}', 1)] },
    { 'another failure': [counter('gatehouse_certs_failed_total{class="dns"}', 1)] },
  ],
  OrdersWithoutCertificates: [
    {
      'orders and no certificates': [
        counter('gatehouse_certs_orders_total{issuer="a"}', 1),
        gauge('gatehouse_certs_issued_total{action="issue"}', 0),
      ],
    },
    {
      'orders and certificates': [
        counter('gatehouse_certs_orders_total{issuer="a"}', 1),
        counter('gatehouse_certs_issued_total{action="issue"}', 1),
      ],
      'nothing is asked for': [
        gauge('gatehouse_certs_orders_total{issuer="a"}', 0),
        gauge('gatehouse_certs_issued_total{action="issue"}', 0),
      ],
    },
  ],
  CertificatesUnderWayForLong: [
    { 'for two hours': [gauge('gatehouse_certs_under_way', 1)] },
    {
      'with a pause': [{ series: 'gatehouse_certs_under_way', values: '1x95 0x1 1x27' }],
    },
  ],
  IntermediateEndsSoon: [
    {
      'in 20 days': [intermediate(20)],
      'long before its root': [intermediate(20), root(400)],
    },
    { 'in 30 days': [intermediate(30)], 'with its root': [intermediate(20), root(20)] },
  ],
  RootEndsSoon: [{ 'in 364 days': [root(364)] }, { 'in 366 days': [root(366)] }],
  EventsNotAccepted: [
    { 'a receiver is away': [gauge('gatehouse_certs_events_waiting{receiver="phone"}', 3)] },
    {
      'all were accepted': [gauge('gatehouse_certs_events_waiting{receiver="phone"}', 0)],
      'a short while': [
        { series: 'gatehouse_certs_events_waiting{receiver="phone"}', values: '0x115 2x9' },
      ],
    },
  ],
  LoginsFail: [
    {
      'one each minute': [counter('gatehouse_auth_logins_total{portal="a",result="failed"}', 1)],
    },
    {
      'people who are refused': [
        counter('gatehouse_auth_logins_total{portal="a",result="refused"}', 1),
      ],
      'one a long time ago': [burst('gatehouse_auth_logins_total{portal="a",result="failed"}', 9)],
    },
  ],
  CheckSlow: [
    Object.fromEntries(CHECK_ROUTES.map((route) => [`${route} is slow`, checks(route)])),
    {
      'another page is slow': checks('/portals/:portal/signin'),
      'checks are fast': checks('/portals/:portal', '0.1'),
    },
  ],
}

async function promtool(t: Test, args: readonly string[], cwd: string): Promise<void> {
  const { failed, output } = await promisify(execFile)('promtool', args, { cwd }).then(
    ({ stdout }) => ({ failed: false, output: stdout }),
    ({ stdout, stderr }) => ({ failed: true, output: `${stdout}${stderr}` }),
  )
  t.notOk(failed, `promtool ${args.join(' ')}\n${failed ? output : ''}`)
}

t.test('promtool accepts every rule file and every rule of the guides', async (t) => {
  t.equal(RULE_FILES.length, 2)
  await promtool(t, ['check', 'rules', ...RULE_FILES], ROOT)
  const cwd = t.testdir()
  const blocks = readDocuments('{*,docs/*,examples/*/*}.md').flatMap(({ blocks }) => blocks)
  for (const { file, line, info, text } of blocks) {
    const name = `${basename(file)}-${line}.yaml`
    if (!info.startsWith('yaml') || !/^(groups|scrape_configs):/m.test(text)) continue
    writeFileSync(join(cwd, name), text)
    for (const rules of RULE_FILES) copyFileSync(join(ROOT, rules), join(cwd, basename(rules)))
    await promtool(t, ['check', text.startsWith('groups') ? 'rules' : 'config', name], cwd)
  }
})

interface Rule {
  readonly alert: string
  readonly annotations: Readonly<Record<'summary' | 'action' | 'runbook', string>>
}

const RULES = RULE_FILES.flatMap((file) => {
  const { groups } = parse(readFileSync(join(ROOT, file), 'utf8'))
  return groups.flatMap(({ rules }: { rules: readonly Rule[] }) => rules) as Rule[]
})

t.test('each alert says what happened, what to do, and where to read more', async (t) => {
  for (const { alert, annotations } of RULES) {
    const { summary, action, runbook } = annotations
    for (const text of [summary, action]) t.match(text, /^[A-Za-z].+\.$/, alert)
    const [file = '', anchor = ''] = runbook.split('#')
    t.ok(anchorsOf(readDocument(file)).includes(anchor), runbook)
    t.equal(anchor, alert.toLowerCase())
  }
})

t.test('each alert fires when it has to, and at no other time', async (t) => {
  t.strictSame(Object.keys(CASES).toSorted(), RULES.map(({ alert }) => alert).toSorted())
  const cwd = t.testdir()
  const tests = Object.entries(CASES).flatMap(([alert, [firing, quiet]]) =>
    [firing, quiet].flatMap((cases, at) =>
      Object.entries(cases).map(([what, series]) => ({
        name: `${alert}: ${what}`,
        interval: '1m',
        input_series: series,
        promql_expr_test: [
          {
            expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
            eval_time: `${MINUTES}m`,
            exp_samples: at === 0 ? [{ labels: '{}', value: 1 }] : [],
          },
        ],
      })),
    ),
  )
  const rules = {
    rule_files: RULE_FILES.map((file) => join(ROOT, file)),
    evaluation_interval: '5m',
  }
  // promtool does one after the other, and each takes it a while.
  const half = Math.ceil(tests.length / 2)
  await Promise.all(
    [tests.slice(0, half), tests.slice(half)].map((part, n) => {
      writeFileSync(join(cwd, `${n}.yaml`), stringify({ ...rules, tests: part }))
      return promtool(t, ['test', 'rules', `${n}.yaml`], cwd)
    }),
  )
})

t.test('the routes of checks are those that forward-auth has', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  for (const url of CHECK_ROUTES) t.ok(app.hasRoute({ method: 'GET', url }), url)
})
