import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Name, PkiError, parseName } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { CertError } from '../errors.ts'
import type { Held } from '../issuance/held.ts'
import { mayAll, requesterOf } from '../plugins/access.ts'
import { createDocuments } from '../proxy/traefik.ts'
import { GUARDED, PEM, problemAnswers } from '../schemas/answers.ts'
import {
  CaddyQuerySchema,
  NoQuerySchema,
  PemBundleSchema,
  TraefikDocumentSchema,
} from '../schemas/certificate.ts'
import { preferBegun } from '../times.ts'
import { firstFit } from './lookup.ts'

/** `GET /api/proxy/traefik` and `GET /api/proxy/caddy`, from which proxies fetch certificates. */
export const proxyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const documents = createDocuments(app)
  const guard = [app.requireCaller(), async (request: FastifyRequest) => assertLimited(request)]

  app.get('/api/proxy/traefik', { onRequest: guard, schema: TRAEFIK }, async (request, reply) => {
    const document = await documents(request.caller, requesterOf(request))
    return send(reply, 'application/json; charset=utf-8', document)
  })

  app.get(
    '/api/proxy/caddy',
    { onRequest: [takeBasic, ...guard], schema: CADDY },
    async (request, reply) => {
      const held = await findFor(request, request.query.server_name ?? '')
      if (!held) return reply.code(204).header('cache-control', 'no-store').send(null)
      await app.issuance.recordDelivery(held, requesterOf(request))
      return send(reply, PEM, held.pem)
    },
  )
}

const TRAEFIK = {
  summary: 'All certificates held that the caller may read, for Traefik’s HTTP provider',
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
}

const CADDY = {
  summary: 'The certificate held for a server name, for `get_certificate http` of Caddy',
  description: 'Needs a key with `domains`, which may be the password of Basic authentication.',
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
}

function send(reply: FastifyReply, type: string, body: string | Buffer): FastifyReply {
  return reply.header('cache-control', 'no-store').type(type).send(body)
}

async function findFor(
  { server, caller }: FastifyRequest,
  serverName: string,
): Promise<Held | undefined> {
  const { clock, holdings, store } = server
  for (const name of namesFor(serverName)) {
    const now = clock.now()
    const records = await firstFit(
      (skip) => store.findByName(name, skip),
      (one) => one.sealedKey !== null && one.notAfter > now && mayAll(server, caller, 'read', one),
    )
    const [record] = preferBegun(records, now)
    if (record) return holdings.of(record)
  }
  return undefined
}

/** The names of certificates for a server: its own, and the wildcard above it (RFC 9525 section 6.3). */
export function namesFor(serverName: string): readonly string[] {
  const name = nameOrNone(serverName)
  if (!name || name.kind === 'wildcard') return []
  const [, ...parent] = name.labels
  return parent.length > 0 ? [name.text, `*.${parent.join('.')}`] : [name.text]
}

/** Clients may send anything as SNI. */
function nameOrNone(text: string): Name | undefined {
  try {
    return parseName(text)
  } catch (error) {
    if (error instanceof PkiError) return undefined
    throw error
  }
}

/** Caddy can send only Basic credentials, those of the URL. */
function takeBasic(request: FastifyRequest, _reply: unknown, done: () => void): void {
  const { headers } = request.raw
  if (headers.authorization) headers.authorization = withoutBasic(headers.authorization)
  done()
}

/** Replaces Basic credentials (RFC 7617) by `APIKey` ones, whose key is the password. */
export function withoutBasic(authorization: string): string {
  const [scheme = '', encoded = ''] = authorization.split(/ +/, 2)
  if (scheme.toLowerCase() !== 'basic') return authorization
  const credentials = Buffer.from(encoded, 'base64').toString('latin1')
  const [, key] = /:(.+)/s.exec(credentials) ?? []
  return key ? `APIKey ${key}` : authorization
}

/** Names that nobody has (RFC 6761, RFC 6890): a caller that may read one of them may read all of its kind. */
const NOBODYS = ['invalid', '0.0.0.0', '::'].map(parseName)

/**
 * Refuses callers that are not limited to names: a proxy needs a key of its own, as one answer has
 * all keys that its caller may read.
 *
 * @throws CertError `CERT_KEY_UNRESTRICTED`
 */
function assertLimited(request: FastifyRequest): void {
  const { caller, server } = request
  const isKeyOfAll = caller.method === 'psk' && !caller.domains
  const mayRead = server.policy()
  if (!isKeyOfAll && !NOBODYS.some((name) => mayRead(caller, 'read', [name]).allowed)) return
  server.audit.recordRefusal(requesterOf(request), [], 'CERT_KEY_UNRESTRICTED')
  throw new CertError('CERT_KEY_UNRESTRICTED', `${caller.subject} is not limited to names`)
}
