import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import type { Limit } from '../../packages/issuance/src/limits/bucket.ts'
import { caLimitsOf } from '../../packages/issuance/src/limits/ca-limits.ts'
import type { IssuerConfig } from '../../packages/issuance/src/options/issuers.ts'
import { GRACE_MS } from '../../packages/service-kit/src/run-app.ts'
import { codeOf, ROOT, readDocument, readDocuments, tableRows } from './markdown.ts'
import { settingsOf, statusOfCodes } from './reference-pages.ts'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const namesIn = (pattern: string) =>
  globSync(pattern, { cwd: ROOT }).flatMap((file) =>
    [...read(file).matchAll(/'((?:gatehouse|http)_[a-z_]+)'/g)].map(([, name = '']) => name),
  )

t.test('the table of metrics has every metric of both services, and no other', (t) => {
  const shared = namesIn('packages/service-kit/src/**/*.ts')
  const own = namesIn('services/*/src/**/*.ts').filter((name) =>
    /^gatehouse_(certs|auth)_/.test(name),
  )
  const measured = [...shared, ...own]
  const rows = tableRows(readDocument('docs/monitoring.md').prose)
    .map(([name = '', text = '']) => [codeOf(name)[0] ?? '', text] as const)
    .filter(([name]) => /^(gatehouse|http)_/.test(name))
  t.strictSame(rows.map(([name]) => name).sort(), [...new Set(measured)].sort())
  for (const [name, text] of rows)
    t.equal(/both services$/.test(text), shared.includes(name), `${name}: whose it is`)
  t.end()
})

/** Defaults by the keys of the reference. */
const defaultsOf = (service: string): Map<string, string> =>
  new Map(settingsOf(service).map(({ key, fallback }) => [key, fallback]))

t.test('defaults that the guides tell are those of the reference', (t) => {
  const defaults = {
    'cert-service': defaultsOf('cert-service'),
    'forward-auth': defaultsOf('forward-auth'),
  }
  const told: [
    service: keyof typeof defaults,
    key: string,
    value: string,
    file: string,
    sentence: string,
  ][] = [
    ['cert-service', 'server.host', '127.0.0.1', 'SECURITY.md', 'the default is `127.0.0.1`'],
    ['forward-auth', 'server.host', '127.0.0.1', 'SECURITY.md', 'the default is `127.0.0.1`'],
    ['cert-service', 'server.port', '7401', 'docs/operations.md', '| `https://127.0.0.1:7401` |'],
    ['forward-auth', 'server.port', '4181', 'docs/operations.md', '| `http://127.0.0.1:4181` |'],
    [
      'cert-service',
      'metrics.port',
      '9464',
      'docs/operations.md',
      '`http://127.0.0.1:9464/metrics`',
    ],
    [
      'forward-auth',
      'metrics.port',
      '9465',
      'docs/operations.md',
      '`http://127.0.0.1:9465/metrics`',
    ],
    [
      'cert-service',
      'ca.leafLifetime',
      '7d',
      'docs/embedded-ca.md',
      '(7 days unless `ca.leafLifetime`',
    ],
    ['cert-service', 'issuance.wait', '20s', 'docs/acme.md', '`issuance.wait` (20 s)'],
    ['forward-auth', 'session.lifetime', '8h', 'docs/security.md', '8 hours is the default'],
    [
      'forward-auth',
      'session.lifetime',
      '8h',
      'docs/moving-from-oauth2-proxy.md',
      '168h there, 8h here',
    ],
    [
      'forward-auth',
      'session.lifetime',
      '8h',
      'docs/moving-from-traefik-forward-auth.md',
      '2h there; default 8h here',
    ],
    [
      'forward-auth',
      'portals[].loginLifetime',
      '10m',
      'docs/moving-from-traefik-forward-auth.md',
      '5m there; default 10m here',
    ],
    [
      'forward-auth',
      'server.host',
      '127.0.0.1',
      'docs/moving-from-traefik-forward-auth.md',
      '0.0.0.0 there; default 127.0.0.1 here',
    ],
    [
      'forward-auth',
      'portals[].providers[].socket',
      '/var/run/tailscale/tailscaled.sock',
      'docs/providers/tailscale.md',
      'socket: /var/run/tailscale/tailscaled.sock',
    ],
    [
      'forward-auth',
      'log.checks',
      'refused',
      'docs/monitoring.md',
      'are logged with `log.checks: all`',
    ],
  ]
  for (const [service, key, value, file, sentence] of told) {
    t.ok(read(file).includes(sentence), `${file}: ${sentence}`)
    t.equal(defaults[service].get(key), value, `${service}: ${key}`)
  }

  const { blocks } = readDocument('docs/machine-callers.md')
  const block = blocks.find(({ text }) => text.startsWith('limits:'))
  for (const [section, values] of Object.entries<object>(parse(block?.text ?? '').limits))
    for (const [key, value] of Object.entries(values))
      t.equal(defaults['cert-service'].get(`limits.${section}.${key}`), String(value), key)
  t.end()
})

t.test('the table of the limits of public CAs is what is counted', (t) => {
  const keys = ['orders', 'domain', 'names', 'failures', 'failuresInARow', 'accounts'] as const
  const rows = tableRows(readDocument('docs/acme.md').prose)
  const from = rows.findIndex(([limit]) => limit === 'orders of the account')
  const directories = ['letsencrypt', 'letsencrypt-staging'] as const
  for (const [column, directory] of directories.entries()) {
    const limits = caLimitsOf({ directory } as IssuerConfig)
    const told = keys.map((_, row) => rows[from + row]?.[column + 1])
    t.strictSame(
      told,
      keys.map((key) => inWords(limits[key])),
      directory,
    )
  }
  t.end()
})

/** As the table tells a limit: what is refilled one a day is told so. */
function inWords(limit: Limit | undefined): string {
  if (!limit) return ''
  const count = limit.count.toLocaleString('en-US')
  const hours = limit.per / 3_600_000
  if (hours === 24 * limit.count) return `${count}, one back a day`
  if (hours === 1) return `${count} in an hour`
  return hours < 24 ? `${count} in ${hours} hours` : `${count} in ${hours / 24} days`
}

t.test('the steps of an order that the guide lists are those that are reported', (t) => {
  const source = read('packages/issuance/src/issuers/acme/order.ts')
  const [, list = ''] = /\nThe steps are ([^.]+)\./.exec(read('docs/acme.md')) ?? []
  const told = codeOf(list)
  t.ok(told.length > 5)
  for (const step of told) t.ok(source.includes(`'${step}'`), step)
  for (const [, step = ''] of source.matchAll(/report\('([^']+)'\)/g))
    t.ok(told.includes(step), step)
  t.end()
})

t.test('a stop takes no longer than the guide says', (t) => {
  const [, seconds] = /After (\d+) s it ends in\s+any case/.exec(read('docs/operations.md')) ?? []
  t.equal(Number(seconds) * 1_000, GRACE_MS)
  t.end()
})

t.test('images, archives and the bench give new objects as much memory', (t) => {
  for (const file of ['Dockerfile', 'scripts/release/archive.ts', 'bench/memory.ts'])
    t.match(read(file), /--max-semi-space-size=2\b/, file)
  t.end()
})

t.test('a status beside an error code is the status of that error', (t) => {
  const statuses = statusOfCodes()
  let found = 0
  for (const { file, prose } of readDocuments('{*,docs/*}.md'))
    for (const [, status = '', code = ''] of prose
      .join('\n')
      .matchAll(/\b(\d{3}) `([A-Z]+_[A-Z_]+)`/g)) {
      if (!statuses.get(code)) continue
      found += 1
      t.equal(status, statuses.get(code), `${file}: ${code}`)
    }
  t.ok(found > 15)
  t.end()
})

t.test('no example hands a session to an app, or lets a request bring a condition', (t) => {
  const files = globSync('{examples,docker,.}/**/*.{yaml,yml}', {
    cwd: ROOT,
    exclude: ['**/node_modules/**', '**/dist/**', '**/test/**'],
  })
  t.ok(files.length > 10)
  for (const file of files) t.notMatch(read(file), /tokenHeader/, file)
  t.end()
})
