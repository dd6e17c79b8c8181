import { AcmeProblem, malformed } from '@gatehouse/acme/server'
import { isEmbedded } from '@gatehouse/issuance/request'
import { durationText } from '@gatehouse/service-kit/config'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { accountRoutes } from './accounts.ts'
import { authorizationRoutes } from './authorizations.ts'
import { certificateRoutes } from './certificates.ts'
import { orderRoutes } from './orders.ts'
import { problemOf } from './problems.ts'
import { verifyReader } from './requests.ts'
import { requireOwnHost, urlsOf } from './urls.ts'

const JOSE = 'application/jose+json'

/** Parameters with the characters that this server puts into its URLs. A database reads no others in a text. */
const ParamsSchema = Type.Record(Type.String(), Type.String({ pattern: '^[\\w.-]*$' }))

/** The ACME server (RFC 8555), below `/acme`: its routes take signed requests, and answer problems of ACME. */
export async function acmeRoutes(app: FastifyInstance): Promise<void> {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JOSE, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.addHook('onRoute', (route) => {
    route.schema = { ...route.schema, params: ParamsSchema, hide: true }
  })
  app.addHook('onRequest', async (request, reply) => {
    requireOwnHost(request)
    reply.header('cache-control', 'no-store')
    reply.header('link', `<${urlsOf(request).directory}>;rel="index"`)
  })
  app.addHook('onSend', async (request, reply) => {
    if (request.method === 'POST') reply.header('replay-nonce', app.acme.nonces.issue())
  })
  app.setErrorHandler(answerProblem)
  app.setNotFoundHandler((request, reply) => {
    const status = request.method === 'POST' ? 404 : 405
    const detail =
      status === 404 ? 'there is nothing at this path' : 'this is read by a signed POST'
    return answerProblem(malformed(detail, { status }), request, reply)
  })

  app.get('/directory', async (request) => describeDirectory(request))
  // RFC 8555 section 6.3: these are read by a POST-as-GET too.
  app.post('/directory', async (request) => {
    await verifyReader(request)
    return describeDirectory(request)
  })
  app.post('/new-nonce', async (request, reply) => {
    await verifyReader(request)
    return reply.code(204).send()
  })
  app.route({
    method: ['GET', 'HEAD'],
    url: '/new-nonce',
    exposeHeadRoute: false,
    handler: async (request, reply) =>
      reply
        .code(request.method === 'HEAD' ? 200 : 204)
        .header('replay-nonce', app.acme.nonces.issue())
        .send(),
  })
  await app.register(accountRoutes)
  await app.register(orderRoutes)
  await app.register(authorizationRoutes)
  await app.register(certificateRoutes)
}

function describeDirectory(request: FastifyRequest) {
  const { server } = request
  const { isOpen, terms, profiles } = server.acmeOptions
  const issuerNames = server.issuers.names().filter((name) => !isEmbedded(name))
  const issuers = ['the private CA', ...issuerNames].join(', or by ')
  const profileTexts = [...profiles].map(([name, { lifetime }]) => [
    name,
    `TLS server certificates that live for ${durationText(lifetime)} at most`,
  ])
  return {
    ...urlsOf(request).members,
    meta: {
      externalAccountRequired: !isOpen(request.ip),
      ...(terms !== undefined && { termsOfService: terms }),
      profiles: {
        server: `TLS server certificates, by the issuer that is configured for the names: by ${issuers}`,
        client: 'TLS client certificates, by the private CA',
        ...Object.fromEntries(profileTexts),
      },
    },
  }
}

function answerProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = problemOf(error)
  const isFault = !problem || problem.status >= 500
  request.log[problem ? (isFault ? 'warn' : 'debug') : 'error']({ err: error }, 'request refused')
  const acmeProblem =
    problem ??
    new AcmeProblem(
      'serverInternal',
      `a fault of this service: its log has the cause (${request.id})`,
    )
  if (acmeProblem.retryAfter !== undefined) reply.header('retry-after', acmeProblem.retryAfter)
  return reply
    .code(acmeProblem.status)
    .type('application/problem+json')
    .send(JSON.stringify(acmeProblem))
}
