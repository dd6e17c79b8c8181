import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { parseName } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { preferBegun } from '../clocks.ts'
import { CertError } from '../errors.ts'
import type { Held } from '../issuance/answer.ts'
import { namesFor, withoutBasic } from '../proxy/caddy.ts'
import { createDocuments } from '../proxy/traefik.ts'
import {
  CaddyQuerySchema,
  NoQuerySchema,
  PemBundleSchema,
  TraefikDocumentSchema,
} from '../schemas/certificate.ts'
import type { Service } from '../service.ts'
import { firstFit, mayAll, requesterOf } from './access.ts'
import { PEM } from './answers.ts'
import { GUARDED, problemAnswers } from './documented.ts'

/** `GET /api/proxy/traefik` and `/api/proxy/caddy`: the ways in which proxies fetch certificates. */
export const proxyRoutes: FastifyPluginAsyncTypebox<{ service: Service }> = async (
  app,
  { service },
) => {
  const documents = createDocuments(service)
  const guard = [
    app.requireCaller(),
    async (request: FastifyRequest) => refuseUnrestricted(service, request),
  ]

  app.get(
    '/api/proxy/traefik',
    {
      onRequest: guard,
      schema: {
        summary: 'Every certificate held that the caller may read, for Traefik’s HTTP provider',
        description: 'The same bytes until one of them changes. Needs a key with `domains`.',
        tags: ['proxies'],
        security: GUARDED,
        querystring: NoQuerySchema,
        response: {
          200: {
            description: 'Dynamic configuration.',
            content: { 'application/json': { schema: TraefikDocumentSchema } },
          },
          ...problemAnswers(400, 401, 403, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const document = await documents(request.caller, requesterOf(request))
      return send(reply, 'application/json; charset=utf-8', document)
    },
  )

  app.get(
    '/api/proxy/caddy',
    {
      onRequest: [takeBasic, ...guard],
      schema: {
        summary: 'The certificate held for a server name, for `get_certificate http` of Caddy',
        description:
          'Needs a key with `domains`, which may come as the password of Basic authentication.',
        tags: ['proxies'],
        security: GUARDED,
        querystring: CaddyQuerySchema,
        response: {
          200: {
            description: 'A certificate that is valid now.',
            content: { [PEM]: { schema: PemBundleSchema } },
          },
          204: { type: 'null', description: 'None that the caller may read.' },
          ...problemAnswers(400, 401, 403, 503),
        },
      },
    },
    async (request, reply) => {
      const held = await findFor(service, request, request.query.server_name ?? '')
      if (!held) return reply.code(204).header('cache-control', 'no-store').send(null)
      await service.issuance.handOut(held, requesterOf(request))
      return send(reply, PEM, held.pem)
    },
  )
}

function send(reply: FastifyReply, type: string, body: string | Buffer): FastifyReply {
  return reply.header('cache-control', 'no-store').type(type).send(body)
}

async function findFor(
  service: Service,
  request: FastifyRequest,
  serverName: string,
): Promise<Held | undefined> {
  for (const name of namesFor(serverName)) {
    const now = service.clock.now()
    const records = await firstFit(
      (skip) => service.store.findByName(name, skip),
      (one) =>
        one.sealedKey !== null && one.notAfter > now && mayAll(service, request, 'read', one),
    )
    const [record] = preferBegun(records, now)
    if (record) return service.holdings.of(record)
  }
  return undefined
}

/** Caddy can send nothing but Basic credentials, those of the URL. */
function takeBasic(request: FastifyRequest, _reply: unknown, done: () => void): void {
  const { headers } = request.raw
  if (headers.authorization) headers.authorization = withoutBasic(headers.authorization)
  done()
}

/** Names that nobody has (RFC 6761, RFC 6890): who may read one of them may read all of its kind. */
const NOBODYS = ['invalid', '0.0.0.0', '::'].map(parseName)

/**
 * Refuses whom no names limit: a proxy needs its own, and one answer would give every key.
 *
 * @throws CertError `CERT_KEY_UNRESTRICTED`
 */
function refuseUnrestricted(service: Service, request: FastifyRequest): void {
  const { caller } = request
  const isKeyOfAll = caller.method === 'psk' && !caller.domains
  const mayRead = service.policy()
  if (!isKeyOfAll && !NOBODYS.some((name) => mayRead(caller, 'read', [name]).allowed)) return
  service.audit.refuse(requesterOf(request), [], 'CERT_KEY_UNRESTRICTED')
  throw new CertError('CERT_KEY_UNRESTRICTED', `${caller.subject} is not limited to names`)
}
