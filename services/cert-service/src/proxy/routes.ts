import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { CertificateRecord } from '@gatehouse/cert-store/port'
import type { Certificate } from '@gatehouse/issuance'
import { nameOrNone } from '@gatehouse/issuance/request'
import { parseName } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { findByNames, findHeld, isOf, wildcardOf } from '../lookup/certificates.ts'
import { actorOf, mayAll, programOf, recordDelivery, requireProgram } from '../policy/authorize.ts'
import { isOperator } from '../policy/rules.ts'
import { emptyAnswer, guarded, PEM, PemBundleSchema } from '../schemas.ts'
import { createDocuments, keysWithheld } from './traefik.ts'

/** `GET /api/proxy/traefik` and `GET /api/proxy/caddy`, from which proxies fetch certificates. */
export const proxyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const documents = createDocuments(app)
  const guard = [...requireProgram(app), async (request: FastifyRequest) => assertLimited(request)]

  app.get('/api/proxy/traefik', { onRequest: guard, schema: TRAEFIK }, async (request, reply) => {
    const document = await documents(programOf(request), actorOf(request))
    return send(reply, 'application/json; charset=utf-8', document)
  })

  app.get(
    '/api/proxy/caddy',
    { onRequest: [takeBasic, ...guard], schema: CADDY },
    async (request, reply) => {
      const certificate = await findFor(request, request.query.server_name ?? '')
      if (!certificate) return reply.code(204).header('cache-control', 'no-store').send(null)
      const caller = programOf(request)
      if (!mayAll(app, caller, 'issue', certificate.record)) throw keysWithheld(caller)
      await recordDelivery(request, certificate)
      return send(reply, PEM, certificate.pem)
    },
  )
}

const TraefikDocumentSchema = Type.Object({
  tls: Type.Object({
    certificates: Type.Array(
      Type.Object({
        certFile: Type.String({ description: 'PEM chain, leaf first.' }),
        keyFile: Type.String({ description: 'PKCS#8 in PEM.' }),
      }),
    ),
  }),
})

const TRAEFIK = guarded('getTraefikConfiguration', [403, 422], {
  summary: 'All stored certificates that the caller may read, for Traefik’s HTTP provider',
  description:
    'The response stays the same until a certificate changes. Needs a key with `domains` and ' +
    'the right `issue`, as the document has private keys.',
  tags: ['proxies'],
  querystring: Type.Object({}),
  response: {
    200: {
      description: 'Dynamic configuration.',
      content: { 'application/json': { schema: TraefikDocumentSchema } },
    },
  },
})

const ofHandshake = (description: string) =>
  Type.Optional(Type.String({ maxLength: 4096, description }))

const CADDY = guarded('getCaddyCertificate', [403], {
  summary: 'The stored certificate for a server name, for `get_certificate http` of Caddy',
  description:
    'Needs a key with `domains` and the right `issue`, which may be the password of Basic authentication.',
  tags: ['proxies'],
  querystring: Type.Object({
    server_name: ofHandshake('The name in the SNI of the client.'),
    signature_schemes: ofHandshake('Not used.'),
    cipher_suites: ofHandshake('Not used.'),
    local_ip: ofHandshake('Not used.'),
  }),
  response: {
    200: {
      description: 'A certificate that is valid now.',
      content: { [PEM]: { schema: PemBundleSchema } },
    },
    204: emptyAnswer('No certificate that the caller may read.'),
  },
})

function send(reply: FastifyReply, type: string, body: string | Buffer): FastifyReply {
  return reply.header('cache-control', 'no-store').type(type).send(body)
}

function findFor(request: FastifyRequest, serverName: string): Promise<Certificate | undefined> {
  const { server } = request
  const caller = programOf(request)
  const names = namesFor(serverName)
  const isFit = (record: CertificateRecord) => record.sealedKey !== null && isOf('server')(record)
  return findHeld(request, names, () => findByNames(server, caller, names, isFit), isFit)
}

/** The names of certificates for a server: its own, and the wildcard above it. */
export function namesFor(serverName: string): readonly string[] {
  // Clients may send anything as SNI.
  const name = nameOrNone(serverName)
  if (!name || name.kind === 'wildcard') return []
  const wildcard = wildcardOf(name)
  return wildcard === undefined ? [name.text] : [name.text, wildcard]
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
 * @throws CertError `CERT_KEY_UNRESTRICTED`
 */
function assertLimited(request: FastifyRequest): void {
  const { server } = request
  const caller = programOf(request)
  const mayRead = server.policy
  const isOfAll = NOBODYS.some((name) => mayRead(caller, 'read', [name], 'server').allowed)
  if (!isOperator(caller) && !isOfAll) return
  server.audit.recordRefusal(actorOf(request), [], 'CERT_KEY_UNRESTRICTED')
  throw new CertError('CERT_KEY_UNRESTRICTED', `${caller.subject} is not limited to names`)
}
