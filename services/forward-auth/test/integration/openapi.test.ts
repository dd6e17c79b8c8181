import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { holdToDocument, missingSchemathesis } from '../../../../scripts/test/schemathesis.ts'
import { startApp, yamlOf } from '../app.ts'
import { portalWith } from '../oauth/kit.ts'

expectWarnings(t, 'FWA_', 'AUTH_', 'HTTP_')

const HOST = 'auth.example.com'
const KEY = 'a-key-that-may-do-everything'
const PARTS = { portal: 'main', policy: 'reads' }
const yaml = yamlOf(
  portalWith(
    `callers: { keys: [{ name: ci, key: ${KEY}, hosts: ["*.example.com"] }] }, authorizationServer: { registration: true }`,
  ),
)

t.test('asked by a person', { skip: missingSchemathesis }, async (t) => {
  const { app, signIn } = await startApp(t, yaml)
  const cookie = await signIn('main', { groups: ['admin'] }, { host: HOST })
  await holdToDocument(t, app, { host: HOST, cookie }, PARTS)
})

t.test('asked with a key', { skip: missingSchemathesis }, async (t) => {
  const { app } = await startApp(t, yaml)
  await holdToDocument(t, app, { host: HOST, authorization: `APIKey ${KEY}` }, PARTS)
})
