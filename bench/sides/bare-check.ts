import Fastify from 'fastify'
import { serve } from '../harness/serve.ts'

/** What a check answers for one of the visitors. */
const headers = {
  'cache-control': 'no-store',
  'content-type': 'text/plain; charset=utf-8',
  'x-forwarded-user': '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
  'x-forwarded-displayname': 'Ada Lovelace 000000',
  'x-authenticated-user': JSON.stringify({
    provider: 'corp',
    portal: 'main',
    user: {
      id: '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
      name: { full: 'Ada Lovelace 000000' },
      groups: ['staff', 'engineering'],
      email: { address: 'ada.000000@example.com', verified: true },
    },
  }),
}

const app = Fastify()
app.get('/portals/main', (_request, reply) => {
  reply.headers(headers).send('OK\n')
})
await serve(app)
