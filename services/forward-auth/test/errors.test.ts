import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '@gatehouse/net'
import { FASTIFY_ERRORS, HTTP_ERRORS } from '@gatehouse/service-kit/http'
import t from 'tap'
import pkg from '../package.json' with { type: 'json' }
import { noSession } from '../src/check/challenges.ts'
import { ForwardAuthSchema } from '../src/config/schema.ts'
import { ERRORS, FWA_ERRORS, FwaError, STATUS_OF } from '../src/errors.ts'
import { describeApi } from '../src/openapi.ts'
import { VERSION } from '../src/version.ts'
import { portalOf, startApp, yamlOf } from './app.ts'
import { named, text, waysIn } from './pages/read.ts'
import { BROWSER } from './shapes.ts'

const SRC = join(import.meta.dirname, '../src')

t.test('every listed code is thrown, and every thrown code is listed', async (t) => {
  const files = (await readdir(SRC, { recursive: true })).filter(
    (file) => file.endsWith('.ts') && file !== 'errors.ts',
  )
  const text = (await Promise.all(files.map((file) => readFile(join(SRC, file), 'utf8')))).join('')
  const used = new Set([...text.matchAll(/(?<=['"])FWA_[A-Z_]+(?=['"])/g)].map(([code]) => code))
  const ofPackages = [...used].filter((code) => !(code in FWA_ERRORS))
  t.strictSame([...used].filter((code) => code in FWA_ERRORS).sort(), Object.keys(FWA_ERRORS))
  for (const code of ofPackages) t.ok(code in ERRORS, code)
  for (const code of Object.keys(ERRORS)) t.ok(STATUS_OF[code], `${code} has a status`)
})

t.test('the error when nobody is signed in is one like any other, but has no stack', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const at = { portal: app.portals.get('main')!, site: app.sites.list[0]! }
  const error = noSession(at)
  const { name, code, message, title, headers, members, stack, ...others } = error
  const made = new FwaError(code, message)
  t.match({ name, code, title }, { name: made.name, code: 'FWA_NO_SESSION', title: made.title })
  t.match(members, { loginUrl: /signin$/ })
  t.match(headers, { 'www-authenticate': 'Cookie realm="main"' })
  t.ok(hasCode(error, 'FWA_NO_SESSION'))
  t.ok(error instanceof Error)
  t.equal(stack, undefined)
  t.strictSame(others, {})
})

t.test('every key of the configuration has a description', async (t) => {
  const walk = (schema: Schema, path: string): void => {
    const { properties, items, anyOf } = schema
    for (const [key, member] of Object.entries(properties ?? {})) walk(member, `${path}/${key}`)
    if (items) walk(items, `${path}/*`)
    for (const option of anyOf ?? []) if (option.properties) walk(option, path)
    const isTag = schema.const !== undefined
    const isLeaf = !properties && !items && !anyOf && !isTag && !path.endsWith('*')
    if (isLeaf) t.ok(schema.description, path)
  }
  walk(ForwardAuthSchema as Schema, '')
})

t.test('the OpenAPI document describes each route once', async (t) => {
  const { paths, info } = (await describeApi()) as Document
  t.equal(info.version, VERSION)
  t.equal(pkg.version, VERSION)
  const templates = Object.keys(paths)
  for (const path of ['', '/profile.json', '/authz/nginx', '/token', '/mcp-proxy/{rest}'])
    t.ok(
      templates.some((name) => name.replace(/\/$/, '') === `/portals/{portal}${path}`),
      path,
    )
  t.ok(templates.includes('/api/portals/{portal}/verify'))
  t.notOk(
    templates.some((name) => name.startsWith('/portal/')),
    'the other spelling is not',
  )
  for (const [path, operations] of Object.entries(paths))
    for (const [verb, operation] of Object.entries(operations))
      t.ok(operation.summary, `${verb} ${path}`)
  // Programs that are generated from the document call their functions so.
  const names = Object.values(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  )
  t.strictSame(names.sort(), OPERATIONS)
})

t.test('the type of every problem links to its row of the error page', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const { body: page, headers } = await app.inject('/errors')
  t.match(headers['content-type'], 'text/html')
  const told = [STATUS_OF, HTTP_ERRORS, FASTIFY_ERRORS].flatMap(Object.keys)
  for (const code of told) t.ok(page.includes(`<div id="${code}">`), code)
  const requests: [url: string, code: string][] = [
    ['/portals/main/profile.json', 'FWA_HOST_UNKNOWN'],
    ['/nothing', 'NOT_FOUND'],
    ['/%zz', 'FST_ERR_BAD_URL'],
  ]
  for (const [url, code] of requests) {
    const { type } = (await app.inject(url)).json()
    t.equal(type, `https://auth.example.com/errors#${code}`, url)
  }
})

t.test(
  'whatever is not there: people get one page with the ways out, programs one problem',
  async (t) => {
    const portals = portalOf('main', 'title: Example') + portalOf('other')
    const test = await startApp(t, yamlOf(portals, 'server: { basePath: /gate }'))
    const host = 'auth.example.com'
    const cookie = await test.signIn('main', {}, { host })
    const main = '/gate/portals/main'
    const paths = [
      ...['/', '/nothing', '/gate/nothing', '/gate/portals', '/gate/portals/nobody/account'],
      ...['/nothing', '/providers/none', '/images/none', '/account/calls/none', '/authz/none'].map(
        (path) => main + path,
      ),
      ...['/gate/api/portals/nobody/verify', '/gate/portal/nobody/profile'],
      '/.well-known/oauth-protected-resource/none',
    ]
    const ways = [`https://${host}${main}/account`, `https://${host}${main}/logout`]
    for (const url of paths) {
      const page = await test.app.inject({ url, headers: { ...BROWSER, host, cookie } })
      t.equal(page.statusCode, 404, url)
      t.equal(named(page.body, 'h1').map(text).join(), 'Not found', url)
      t.match(text(named(page.body, 'header')[0]!), 'Example', url)
      t.strictSame(waysIn(page.body), ways, url)
      if (url.includes('/calls/')) continue
      const problem = await test.app.inject({ url, headers: { host, accept: '*/*' } })
      t.match(problem.headers, { 'content-type': 'application/problem+json' }, url)
      t.match(problem.json(), { type: String, title: String, status: 404, code: /NOT_FOUND$/ }, url)
    }
    const foreign = await test.app.inject({
      url: '/nothing',
      headers: { ...BROWSER, host: 'a.test' },
    })
    t.strictSame(waysIn(foreign.body), [], 'a host of nobody leads nowhere')
  },
)

t.test('in a browser an unknown path is a page, and programs get problem+json', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const html = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const table: [who: string, headers: Record<string, string>, type: RegExp][] = [
    ['a browser', { 'sec-fetch-mode': 'navigate', accept: html }, /^text\/html/],
    ['an old browser', { accept: html }, /^text\/html/],
    ['curl', { accept: '*/*' }, /^application\/problem\+json/],
    ['fetch', { 'sec-fetch-mode': 'cors', accept: html }, /^application\/problem\+json/],
    [
      'JSON before HTML',
      { accept: 'application/json, text/html;q=0.9' },
      /^application\/problem\+json/,
    ],
  ]
  for (const [who, headers, type] of table)
    for (const [url, status] of [
      ['/nothing', 404],
      ['/portals/main/nothing', 404],
      ['/%zz', 400],
    ] as const) {
      const answer = await app.inject({ url, headers })
      t.equal(answer.statusCode, status, `${who}: ${url}`)
      t.match(answer.headers['content-type'], type, `${who}: ${url}`)
    }
})

interface Schema {
  readonly description?: string
  readonly const?: unknown
  readonly properties?: Record<string, Schema>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}

const OPERATIONS = [
  'checkEnvoy',
  'checkEnvoyHome',
  'checkForward',
  'checkHaproxy',
  'checkIngressNginx',
  'checkNginx',
  'checkNginxAnswer',
  'endMcpSession',
  'endSessions',
  'getAssertionKeys',
  'getAssertionMetadata',
  'getAuthorizationServerMetadata',
  'getAuthorizationServerMetadataBelowPortal',
  'getLiveness',
  'getProfile',
  'getReadiness',
  'getResourceMetadata',
  'openMcpStream',
  'receiveLogoutToken',
  'registerClient',
  'requestToken',
  'revokeToken',
  'sendMcpMessage',
  'verifyToken',
]

interface Document {
  readonly info: { readonly version: string }
  readonly paths: Record<string, Record<string, { operationId?: string; summary?: string }>>
}
