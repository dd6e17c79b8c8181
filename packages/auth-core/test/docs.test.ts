import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { Static } from 'typebox'
import { buildApp as accessToken } from '../examples/access-token.ts'
import { buildApp as anyOf } from '../examples/any-of.ts'
import { buildApp as apiKey } from '../examples/api-key.ts'
import { buildApp as besideFastifyJwt } from '../examples/beside-fastify-jwt.ts'
import { buildApp as ownTokens } from '../examples/own-tokens.ts'
import { buildApp as person } from '../examples/person.ts'
import { AUTH_ERRORS } from '../src/errors.ts'
import { type AuthOptions, AuthOptionsSchema } from '../src/options.ts'
import { assertion, fakeIssuer, issue, ORIGIN, signingKey } from './kit.ts'

const root = new URL('..', import.meta.url)
const readmeFile = new URL('README.md', root)

/** The lines between two marks of the README; `tap --snapshot` writes what is expected there. */
function section(name: string, expected: string[]): string[] | undefined {
  const marked = new RegExp(`(?<=<!-- ${name} -->\n).*(?=\n<!-- /${name} -->)`, 's')
  const readme = readFileSync(readmeFile, 'utf8')
  if (process.env.TAP_SNAPSHOT === '1')
    writeFileSync(
      readmeFile,
      readme.replace(marked, () => expected.join('\n')),
    )
  const written = marked.exec(readFileSync(readmeFile, 'utf8'))?.[0]
  return written?.replace(/ {2,}/g, ' ').replace(/-{3,}/g, '---').split('\n') // as before formatting
}

t.test('README lists every error', async (t) => {
  const expected = [
    '| code | status | meaning | what to do |',
    '| --- | --- | --- | --- |',
    ...Object.entries(AUTH_ERRORS).map(
      ([code, { status, title, action }]) => `| ${code} | ${status} | ${title} | ${action} |`,
    ),
  ]
  t.strictSame(section('errors', expected), expected)
})

interface Schema {
  type?: string
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  const?: unknown
}

function typeOf({ type, items, anyOf, const: value }: Schema): string {
  if (anyOf) return anyOf.map(typeOf).join(' or ')
  if (items) return `list of ${typeOf(items)}s`
  return value === undefined ? (type ?? '') : `\`${value}\``
}

function rows({ properties = {}, required = [] }: Schema, path = ''): string[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const key = `${path}${name}`
    const need = required.includes(name) ? ', required' : ''
    const { description = t.fail(`${key} has no description`) } = schema
    const own = `| \`${key}\` | ${typeOf(schema)}${need} | ${description} |`
    return [own, ...rows(schema, `${key}.`), ...rows(schema.items ?? {}, `${key}[].`)]
  })
}

t.test('README lists every option', async (t) => {
  const expected = [
    '| option | type | meaning |',
    '| --- | --- | --- |',
    ...rows(AuthOptionsSchema as unknown as Schema),
  ]
  t.strictSame(section('options', expected), expected)
})

/** The members of an exported interface, each with the text that an editor shows; without: undefined. */
function textsOf(file: string, name: string): Record<string, string | undefined> {
  const source = readFileSync(new URL(`src/${file}`, root), 'utf8')
  const found = new RegExp(
    `^(?:export )?interface ${name}(?: extends (\\w+))? \\{$(.*?)^\\}$`,
    'ms',
  ).exec(source)
  if (!found) throw new Error(`${name} is not in ${file}`)
  const [, parent, body = ''] = found
  const members = body.matchAll(
    /(?:^ {2}\/\*\*((?:(?!\*\/).)*)\*\/\n)?^ {2}(?:readonly )?(\w+)\??:/gms,
  )
  const own = Array.from(members, ([, text, member = '']) => [
    member,
    text?.replace(/\s*\n\s*\*?\s*/g, ' ').trim(),
  ])
  return { ...(parent && textsOf(file, parent)), ...Object.fromEntries(own) }
}

const { psk, jwt, assertion: ofPeople } = AuthOptionsSchema.properties
const optionTypes: [name: string, schema: Schema][] = [
  ['AuthOptions', AuthOptionsSchema as unknown as Schema],
  ['KeyOptions', psk as unknown as Schema],
  ['NamedKeyOptions', psk.properties.keys.items as unknown as Schema],
  ['TokenOptions', jwt as unknown as Schema],
  ['IssuerOptions', jwt.properties.issuers.items as unknown as Schema],
  ['AssertionOptions', ofPeople as unknown as Schema],
]
for (const [name, { properties = {} }] of optionTypes)
  t.test(`the TSDoc of ${name} says the same as the reference`, async (t) => {
    const described = Object.entries(properties).map(([key, { description }]) => [key, description])
    t.same(textsOf('options.ts', name), Object.fromEntries(described))
  })

t.test('every option of the guard has TSDoc', async (t) => {
  const texts = textsOf('demands.ts', 'CallerDemand')
  t.strictSame(Object.keys(texts), ['scopes', 'methods', 'optional'])
  const ofPerson = textsOf('demands.ts', 'PersonDemand')
  for (const [option, text] of Object.entries({ ...texts, ...ofPerson }))
    t.match(text, /^[A-Z].*\.$/s, option)
})

t.test('options of a configuration file and of code have the same type', async (t) => {
  const fromFile = (options: Static<typeof AuthOptionsSchema>): AuthOptions => options
  const keys: readonly string[] = ['a', 'b']
  const fromCode: AuthOptions = { audience: keys, psk: undefined, jwt: { caFile: undefined } }
  // @ts-expect-error: an option that there is not
  const unknown: AuthOptions = { jwt: { audiences: keys } }
  // @ts-expect-error: a name is required
  const nameless: AuthOptions = { psk: { keys: [{ name: undefined }] } }
  t.type([fromFile, fromCode, unknown, nameless], Array)
})

t.test('every code is used, and no other', async (t) => {
  const files = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
  const sources = files
    .filter((file) => file.endsWith('.ts') && file !== 'errors.ts')
    .map((file) => readFileSync(new URL(`src/${file}`, root), 'utf8'))
  const used = sources.flatMap((source) => source.match(/'AUTH_[A-Z_]+'/g) ?? [])
  const codes = Object.keys(AUTH_ERRORS).map((code) => `'${code}'`)
  t.strictSame([...new Set(used)].sort(), codes.sort())
})

t.test('every title can be part of a challenge (RFC 6750 section 3)', async (t) => {
  for (const { title } of Object.values(AUTH_ERRORS)) t.match(title, /^[ !#-[\]-~]+$/)
})

t.test('the examples run', async (t) => {
  const ask = async (
    app: FastifyInstance,
    method: 'GET' | 'POST' | 'DELETE',
    url: string,
    headers = {},
  ) => (await app.inject({ method, url, headers })).statusCode
  const [backup, monitor] = ['backup-backup-backup', 'monitor-monitor-monitor']

  t.test('api-key', async (t) => {
    const app = await apiKey({ backup, monitor })
    t.teardown(() => app.close())
    t.equal(await ask(app, 'GET', '/jobs'), 401)
    t.equal(await ask(app, 'GET', '/jobs', { authorization: `APIKey ${monitor}` }), 200)
    t.equal(await ask(app, 'POST', '/jobs', { authorization: `APIKey ${monitor}` }), 403)
    t.equal(await ask(app, 'POST', '/jobs', { authorization: `APIKey ${backup}` }), 200)
  })
  t.test('access-token', async (t) => {
    const key = signingKey('ES256', 'key')
    const issuerUrl = await serveKeys(t, key.jwk)
    const app = await accessToken(issuerUrl)
    t.teardown(() => app.close())
    const now = Math.floor(Date.now() / 1_000)
    const claims = { iss: issuerUrl, aud: 'https://reports.example', iat: now, exp: now + 60 }
    const bearer = (scope: string) => ({
      authorization: `Bearer ${issue(key, { ...claims, scope })}`,
    })
    t.equal(await ask(app, 'GET', '/reports'), 401)
    t.equal(await ask(app, 'GET', '/reports', bearer('reports:read')), 200)
    t.equal(await ask(app, 'DELETE', '/reports', bearer('reports:read')), 403)
    t.equal(await ask(app, 'DELETE', '/reports', bearer('reports:read reports:write')), 200)
    t.equal((await app.inject('/readyz')).body, '{"degraded":[]}')
  })
  t.test('beside-fastify-jwt', async (t) => {
    const app = await besideFastifyJwt({
      apiKey: backup,
      sessionSecret: 'a secret of 32 characters or more',
    })
    t.teardown(() => app.close())
    const session = app.jwt.sign({ sub: 'person' })
    t.equal(await ask(app, 'GET', '/me', { cookie: `session=${session}` }), 200)
    t.equal(await ask(app, 'GET', '/metrics', { cookie: `session=${session}` }), 401)
    t.equal(await ask(app, 'GET', '/metrics', { authorization: `APIKey ${backup}` }), 200)
  })
  t.test('person', async (t) => {
    const key = signingKey('ES256', 'key')
    const portal = await serveKeys(t, key.jwk)
    const app = await person(portal, ORIGIN)
    t.teardown(() => app.close())
    const now = Math.floor(Date.now() / 1_000)
    const claims = { iss: portal, iat: now, exp: now + 60, groups: ['admins'] }
    const headers = { 'x-gatehouse-assertion': assertion(key, claims) }
    t.equal(await ask(app, 'GET', '/'), 401)
    t.strictSame((await app.inject({ url: '/', headers })).json(), {
      hello: 'Ada Lovelace',
      admin: true,
    })
    const elsewhere = assertion(key, { ...claims, aud: 'https://other.example.com' })
    t.equal(await ask(app, 'GET', '/', { 'x-gatehouse-assertion': elsewhere }), 401)
  })
  t.test('own-tokens', async (t) => {
    const known = hash('sha256', 'good')
    const session = { user: 'ada', scopes: ['notes:read'] }
    const app = await ownTokens(async (sha256) => (sha256 === known ? session : null))
    t.teardown(() => app.close())
    t.equal(await ask(app, 'GET', '/notes'), 401)
    t.equal(await ask(app, 'GET', '/notes', { authorization: 'Bearer bad' }), 401)
    t.equal(await ask(app, 'GET', '/notes', { authorization: 'Bearer good' }), 200)
    session.scopes = []
    t.equal(await ask(app, 'GET', '/notes', { authorization: 'Bearer good' }), 403)
  })
  t.test('in-tests', async (t) => {
    const file = new URL('examples/in-tests.ts', root).pathname
    const args = ['--conditions=@gatehouse/source', '--test', '--test-reporter=tap', file]
    const { NODE_OPTIONS: _, ...env } = process.env
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
    t.equal(status, 0, stdout)
    t.match(stdout, /^# pass 1$/m)
  })
  t.test('any-of', async (t) => {
    const app = await anyOf({
      apiKey: backup,
      sessionSecret: 'a secret of 32 characters or more',
    })
    t.teardown(() => app.close())
    const session = app.jwt.sign({ sub: 'person' })
    t.equal(await ask(app, 'GET', '/files'), 401)
    t.equal(await ask(app, 'GET', '/files', { cookie: `session=${session}` }), 200)
    t.equal(await ask(app, 'GET', '/files', { authorization: `APIKey ${backup}` }), 200)
  })
})

async function serveKeys(t: Test, jwk: unknown): Promise<string> {
  let issuer: ReturnType<typeof fakeIssuer> | undefined
  const server = createServer((request, response) => {
    response.end(issuer?.answer(`${issuer.issuer}${request.url}`))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  issuer = fakeIssuer({ issuer: url, keys: [jwk] })
  return url
}
