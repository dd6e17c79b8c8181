import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { FASTIFY_ERRORS, HTTP_ERRORS } from '@gatehouse/service-kit/http'
import t from 'tap'
import pkg from '../package.json' with { type: 'json' }
import { CertServiceSchema } from '../src/config/schema.ts'
import { CERT_ERRORS, STATUS_OF } from '../src/errors.ts'
import { describeApi } from '../src/openapi.ts'
import { VERSION } from '../src/version.ts'
import { start } from './helpers/app.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** The service, and the packages that throw errors of its table. */
const SOURCES = ['services/cert-service/src', 'packages/cert-store/src', 'packages/issuance/src']

t.test('every code is thrown somewhere, and none is thrown that is not listed', async (t) => {
  const files = SOURCES.flatMap((src) => globSync(`${src}/**/*.ts`, { cwd: ROOT })).filter(
    (file) => !file.endsWith('errors.ts'),
  )
  const text = (await Promise.all(files.map((file) => readFile(join(ROOT, file), 'utf8')))).join('')
  const used = new Set([...text.matchAll(/(?<=['"])CERT_[A-Z_]+(?=['"])/g)].map(([code]) => code))
  t.strictSame([...used].sort(), Object.keys(CERT_ERRORS).sort())
})

t.test('every key of the configuration is described', async (t) => {
  const walk = (schema: Schema, path: string): void => {
    const { properties, items, anyOf } = schema
    // A tag says what the rest is.
    if ('const' in schema) return
    for (const [key, member] of Object.entries(properties ?? {})) walk(member, `${path}/${key}`)
    if (items) walk(items, `${path}/*`)
    for (const option of anyOf ?? []) if (option.properties) walk(option, path)
    const isLeaf = !properties && !items?.properties && !path.endsWith('*')
    if (isLeaf) t.ok(schema.description, path)
  }
  walk(CertServiceSchema as Schema, '')
})

t.test('the API is described, route by route', async (t) => {
  const { paths, info } = (await describeApi()) as Document
  t.equal(info.version, VERSION)
  t.equal(pkg.version, VERSION)
  t.ok(Object.keys(paths).length >= 11)
  for (const [path, operations] of Object.entries(paths))
    for (const [verb, operation] of Object.entries(operations))
      t.ok(operation.summary, `${verb} ${path}`)
  // Programs that are generated from the document call their functions so.
  const names = Object.values(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId),
  )
  t.strictSame(names.sort(), OPERATIONS)
})

t.test('the document says where the service is, and who may call what', async (t) => {
  const { paths, servers, components } = (await describeApi()) as Document
  t.strictSame(servers, [
    { url: '/', description: 'The service that this document is fetched from.' },
  ])
  t.match(components.securitySchemes, {
    apiKey: { type: 'http', scheme: 'APIKey' },
    accessToken: { type: 'http', scheme: 'bearer' },
  })
  const { app } = await start(t)
  for (const [path, operations] of Object.entries(paths))
    for (const [verb, { security, responses }] of Object.entries(operations)) {
      const url = path.replace(/\{\w+\}/, 'a.test')
      const { statusCode } = await app.inject({ method: verb.toUpperCase() as 'GET', url })
      t.equal(security !== undefined, statusCode === 401, `${verb} ${path} is guarded`)
      for (const status of ['400', '431', '500', '503'])
        t.ok(responses[status], `${verb} ${path}: ${status}`)
      if (path.includes('{')) t.ok(responses['414'], `${verb} ${path}: 414`)
    }
})

t.test('the type of every problem is a row of the page of errors', async (t) => {
  const { app, call } = await start(t)
  const { body: page, headers } = await app.inject('/errors')
  t.match(headers['content-type'], 'text/html')
  const told = [STATUS_OF, AUTH_ERRORS, HTTP_ERRORS, FASTIFY_ERRORS].flatMap(Object.keys)
  for (const code of told) t.ok(page.includes(`<div id="${code}">`), code)
  const { body } = await call('GET', '/api/certificate/a.test')
  t.match(body, { type: '/errors#CERT_NOT_FOUND', code: 'CERT_NOT_FOUND' })
})

interface Schema {
  readonly description?: string
  readonly properties?: Record<string, Schema>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}

const OPERATIONS = [
  'adoptAcmeAccounts',
  'deleteCertificate',
  'endAcmeAccount',
  'getAcmeKey',
  'getCaddyCertificate',
  'getCertificate',
  'getClientAuthorities',
  'getClientRevocationLists',
  'getIntermediate',
  'getLiveness',
  'getOrder',
  'getReadiness',
  'getRevocationList',
  'getRootRoll',
  'getRoots',
  'getTraefikConfiguration',
  'issueCertificate',
  'listAcmeAccounts',
  'listCertificates',
  'listFailingOrders',
  'renewCertificate',
  'renewCertificates',
  'reportServedCertificate',
  'retryOrders',
  'revokeAcmeAccount',
  'revokeCertificate',
  'revokeLeaked',
  'stepRootRoll',
]

interface Document {
  readonly info: { readonly version: string }
  readonly servers: readonly object[]
  readonly components: { readonly securitySchemes: object }
  readonly paths: Record<
    string,
    Record<
      string,
      {
        operationId?: string
        summary?: string
        security?: object
        responses: Record<string, object>
      }
    >
  >
}
