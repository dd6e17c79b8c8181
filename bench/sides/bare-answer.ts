import Fastify from 'fastify'
import { serve } from '../harness/serve.ts'

const body = JSON.stringify({ certificate: 'x'.repeat(Number(process.argv[2]) - 18) })

const app = Fastify()
app.post('/api/certificate', (_request, reply) => reply.type('application/json').send(body))
app.get('/api/certificate/:domain', (_request, reply) => reply.type('application/json').send(body))
app.get('/acme/new-nonce', (_request, reply) => reply.code(204).send())
await serve(app)
