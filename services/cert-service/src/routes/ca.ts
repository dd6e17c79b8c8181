import { hash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { answerHttp01 } from '@gatehouse/acme'
import { toPem } from '@gatehouse/pki'
import { hasTag } from '@gatehouse/service-kit/http'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { emptyAnswer, problemAnswers } from '../schemas.ts'

const PEM = 'application/pem-certificate-chain'
const CRL = 'application/pkix-crl'
const CACHE_CONTROL = 'public, max-age=300'
/** Sent as it is. */
const FileSchema = Type.Unsafe<string | Uint8Array>({ type: 'string', format: 'binary' })

const BUNDLE = documented(
  'getRoots',
  'The roots for clients to trust, the one that signs first',
  PEM,
)
const ROOTS = {
  ...BUNDLE,
  querystring: Type.Partial(
    Type.Object({
      only: Type.String({
        pattern: '^([0-9A-Fa-f]{2}:?){32}$',
        description:
          'SHA-256 of one of them, in hexadecimal, for programs that take one certificate.',
      }),
    }),
  ),
  response: { ...BUNDLE.response, 304: emptyAnswer('The client already has them.') },
}
const CLIENTS = documented(
  'getClientAuthorities',
  'The root and the intermediates of client certificates, for servers that verify clients',
  PEM,
)
const CLIENT_LISTS = documented(
  'getClientRevocationLists',
  'The revocation lists of all that is in `/ca/clients.pem`',
  PEM,
)
const INTERMEDIATE = documented('getIntermediate', 'The intermediate that signs now', PEM)
const LIST = {
  ...documented('getRevocationList', 'The revocation list of the intermediate that signs now', CRL),
  querystring: Type.Partial(
    Type.Object({
      issuer: Type.String({
        pattern: '^[0-9a-f]{2,128}$',
        description: 'Key identifier of another authority, as in distribution points.',
      }),
    }),
  ),
}

/** The files of the CA, `GET /ca/root.pem` and the others, without authentication. */
export const caRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/ca/root.pem', { schema: ROOTS }, async (request, reply) => {
    const { only } = request.query
    const sha256 = only?.replaceAll(':', '').toLowerCase()
    const roots = app.ca.roots()
    if (roots.length === 0)
      throw new CertError('CERT_NOT_FOUND', 'the root of this CA is kept elsewhere')
    const chosen = roots.filter((der) => !sha256 || hash('sha256', der) === sha256)
    if (chosen.length === 0)
      throw new CertError('CERT_NOT_FOUND', 'this CA has no root with that SHA-256')
    const bundle = chosen.map((der) => toPem('CERTIFICATE', der)).join('')
    const etag = `"${hash('sha256', bundle)}"`
    reply.header('etag', etag)
    // Our client says itself which roots it trusts.
    if (!sha256 && !request.headers['gatehouse-roots']) app.rootHolders.noteFetch(request.ip)
    if (!hasTag(request, etag)) return send(reply, PEM, bundle)
    return reply.code(304).header('cache-control', CACHE_CONTROL).send()
  })
  app.get('/ca/intermediate.pem', { schema: INTERMEDIATE }, async (_request, reply) =>
    send(reply, PEM, toPem('CERTIFICATE', app.ca.intermediate().certificate)),
  )
  const clientAuthorities = async () => {
    const authorities = await app.ca.clientAuthorities()
    if (authorities.length > 0) return authorities
    throw signsNoClients()
  }
  app.get('/ca/clients.pem', { schema: CLIENTS }, async (_request, reply) => {
    const authorities = await clientAuthorities()
    return send(reply, PEM, authorities.map((der) => toPem('CERTIFICATE', der)).join(''))
  })
  app.get('/ca/clients.crl.pem', { schema: CLIENT_LISTS }, async (_request, reply) => {
    const lists = await app.ca.clientLists()
    if (lists.length === 0) throw signsNoClients()
    return send(reply, PEM, lists.map((der) => toPem('X509 CRL', der)).join(''))
  })
  app.get('/ca/crl.der', { schema: LIST }, async (request, reply) => {
    const issuer = request.query.issuer ?? app.ca.intermediate().info.skid ?? ''
    return send(reply, CRL, await app.ca.crls.get(issuer))
  })
}

const signsNoClients = () =>
  new CertError('CERT_NOT_FOUND', 'this CA signs no certificates of clients')

/** `GET /.well-known/acme-challenge/:token` for CAs (RFC 8555 section 8.3), without authentication. */
export const challengeRoute: FastifyPluginAsyncTypebox = async (app) => {
  const schema = {
    params: Type.Object({ token: Type.String({ maxLength: 256, pattern: '^[^\\0]*$' }) }),
  }
  app.get('/.well-known/acme-challenge/:token', { schema }, async (request, reply) => {
    const answer = await answerHttp01(app.challenges, request.params.token)
    if (answer === undefined) throw new CertError('CERT_NOT_FOUND', 'no CA has set this challenge')
    return reply.type('application/octet-stream').send(answer)
  })
}

function send(reply: FastifyReply, type: string, body: string | Uint8Array): FastifyReply {
  return reply.type(type).header('cache-control', CACHE_CONTROL).send(body)
}

function documented(operationId: string, summary: string, type: string) {
  return {
    operationId,
    summary,
    tags: ['CA'],
    response: {
      200: { description: summary, content: { [type]: { schema: FileSchema } } },
      ...problemAnswers(404, 503),
    },
  }
}
