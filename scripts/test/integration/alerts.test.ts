// The alert rules, as promtool reads them: Debian's package `prometheus`.
import { execFile } from 'node:child_process'
import { copyFileSync, globSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { portalOf, startApp, yamlOf } from '../../../services/forward-auth/test/app.ts'
import { ROOT, readDocuments } from '../markdown.ts'

const RULE_FILES = globSync('examples/monitoring/*.rules.yaml', { cwd: ROOT }).sort()

/** The routes of checks, which every alert on checks has to know. */
const CHECK_ROUTES = [
  '/portals/:portal',
  '/portals/:portal/authz/nginx',
  '/portals/:portal/authz/haproxy',
  '/portals/:portal/authz/envoy/policy/:policy',
  '/portals/:portal/authz/envoy/policy/:policy/*',
]

interface Series {
  readonly series: string
  readonly values: string
}

interface Alerting {
  readonly series: readonly Series[]
  readonly alert: string
  readonly fires: boolean
}

const gauge = (series: string, value: number): Series => ({ series, values: `${value}x120` })
const replica = (instance: string, value: number): Series =>
  gauge(`up{job="cert-service",instance="${instance}"}`, value)
const ratio = (value: number, instance = 'a'): Series =>
  gauge(
    `gatehouse_certs_remaining_ratio{domain="a.test",issuer="ca",instance="${instance}"}`,
    value,
  )
const slow = (route: string): readonly Series[] =>
  ['0.1', '0.5', '+Inf'].map((le) => ({
    series: `http_request_duration_seconds_bucket{route="${route}",le="${le}"}`,
    values: le === '0.1' ? '0x120' : '0+60x120',
  }))

const CASES: Readonly<Record<string, Alerting>> = {
  'cert-service is down': {
    series: [gauge('up{job="cert-service"}', 0)],
    alert: 'CertServiceDown',
    fires: true,
  },
  'cert-service is not measured at all': {
    series: [gauge('up{job="other"}', 1)],
    alert: 'CertServiceDown',
    fires: true,
  },
  'cert-service is up': {
    series: [gauge('up{job="cert-service"}', 1)],
    alert: 'CertServiceDown',
    fires: false,
  },
  'two replicas of three are up': {
    series: [replica('a', 0), replica('b', 1), replica('c', 1)],
    alert: 'CertServiceDown',
    fires: false,
  },
  'one replica of three is down': {
    series: [replica('a', 0), replica('b', 1), replica('c', 1)],
    alert: 'CertServiceReplicaDown',
    fires: true,
  },
  'all replicas are down': {
    series: [replica('a', 0), replica('b', 0)],
    alert: 'CertServiceReplicaDown',
    fires: false,
  },
  'cert-service without its database': {
    series: [gauge('gatehouse_degraded{job="cert-service",part="store"}', 1)],
    alert: 'CertServiceStoreAway',
    fires: true,
  },
  'cert-service without an issuer': {
    series: [
      gauge('gatehouse_degraded{job="cert-service",part="issuer:public"}', 1),
      gauge('gatehouse_ready{job="cert-service"}', 1),
    ],
    alert: 'CertServiceStoreAway',
    fires: false,
  },
  'forward-auth cut off from its database for long': {
    series: [gauge('gatehouse_ready{job="forward-auth"}', 0)],
    alert: 'ForwardAuthStoreAway',
    fires: true,
  },
  'forward-auth is not measured at all': {
    series: [gauge('up{job="other"}', 1)],
    alert: 'ForwardAuthDown',
    fires: true,
  },
  'a certificate of one day, half of it over': {
    series: [ratio(0.5)],
    alert: 'CertificateEndsSoon',
    fires: false,
  },
  'a certificate that was not renewed, told by two replicas': {
    series: [ratio(0.15, 'a'), ratio(0.15, 'b')],
    alert: 'CertificateEndsSoon',
    fires: true,
  },
  ...Object.fromEntries(
    CHECK_ROUTES.map((route) => [
      `${route} is slow`,
      { series: slow(route), alert: 'CheckSlow', fires: true },
    ]),
  ),
  'another page is slow': {
    series: slow('/portals/:portal/signin'),
    alert: 'CheckSlow',
    fires: false,
  },
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

t.test('alerts fire when they have to, and at no other time', async (t) => {
  const cwd = t.testdir()
  const tests = Object.entries(CASES).map(([name, { series, alert, fires }]) => ({
    name,
    interval: '1m',
    input_series: series,
    promql_expr_test: [
      {
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
        eval_time: '1h',
        exp_samples: fires ? [{ labels: '{}', value: 1 }] : [],
      },
    ],
  }))
  const rules = RULE_FILES.map((file) => join(ROOT, file))
  writeFileSync(join(cwd, 'tests.yaml'), stringify({ rule_files: rules, tests }))
  await promtool(t, ['test', 'rules', 'tests.yaml'], cwd)
})

t.test('the routes of checks are those that forward-auth has', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  for (const url of CHECK_ROUTES) t.ok(app.hasRoute({ method: 'GET', url }), url)
})
