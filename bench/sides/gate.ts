import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'
import { AUDIENCE } from '../harness/issuer.ts'
import { serve } from '../harness/serve.ts'

const [method, secret = ''] = process.argv.slice(2)

const app = Fastify()
const schema = { response: { 200: { type: 'object', properties: { hello: { type: 'string' } } } } }
const handler = () => ({ hello: 'world' })

if (method === 'open') app.get('/reports', { schema }, handler)
else {
  await app.register(
    auth,
    method === 'psk'
      ? { psk: { key: secret } }
      : { jwt: { issuerUrl: secret, audience: AUDIENCE, requiredScopes: ['certs:issue'] } },
  )
  app.get('/reports', { schema, onRequest: app.requireCaller() }, handler)
}
await serve(app)
