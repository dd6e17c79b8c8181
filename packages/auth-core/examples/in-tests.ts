// A test of an app with auth-core: real keys, which exist in this process alone, and no network.
// node --test examples/in-tests.ts
import assert from 'node:assert/strict'
import { test } from 'node:test'
import auth, { type AuthDeps } from '@gatehouse/auth-core'
import { createTestIssuers } from '@gatehouse/auth-core/testing'
import Fastify from 'fastify'

const options = {
  assertion: {
    issuerUrl: 'https://auth.example.com/portals/main',
    audience: 'https://app.example.com',
  },
  jwt: { issuerUrl: 'https://issuer.example', audience: 'https://app.example.com' },
}

async function buildApp(deps: Partial<AuthDeps> = {}) {
  const app = Fastify()
  await app.register(auth, { ...options, ...deps })
  app.get('/', { onRequest: app.requirePerson() }, ({ person }) => ({ hello: person.name?.full }))
  app.get('/jobs', { onRequest: app.requireCaller({ scopes: ['read'] }) }, ({ caller }) => ({
    readBy: caller.subject,
  }))
  return app
}

test('people and programs', async () => {
  const now = Date.parse('2030-01-01T00:00:00Z')
  const issuers = createTestIssuers(options, { now: () => now })
  const app = await buildApp(issuers.deps)

  const assertion = issuers.signAssertion({ name: 'Ada Lovelace', groups: ['staff'] })
  const home = await app.inject({ url: '/', headers: { 'x-gatehouse-assertion': assertion } })
  assert.deepEqual(home.json(), { hello: 'Ada Lovelace' })

  const token = issuers.signAccessToken({ sub: 'backup', scope: 'read' })
  const jobs = await app.inject({ url: '/jobs', headers: { authorization: `Bearer ${token}` } })
  assert.deepEqual(jobs.json(), { readBy: 'backup' })

  const old = issuers.signAssertion({ iat: now / 1_000 - 120 })
  const late = await app.inject({ url: '/', headers: { 'x-gatehouse-assertion': old } })
  assert.equal(late.statusCode, 401)
})
