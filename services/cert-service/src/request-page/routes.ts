import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type IssuanceRequest, MAX_NAMES, parseRequest } from '@gatehouse/issuance/request'
import { hasCode, TitledError } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import { sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { keepDone } from '../actions/done.ts'
import { dryRunPage } from '../actions/dry-run-page.ts'
import { CertError, STATUS_OF } from '../errors.ts'
import { certificateHref, orderHref, REQUEST_PATH } from '../pages/links.ts'
import { adviceFor } from '../pages/problem.ts'
import { actorOf, authorize } from '../policy/authorize.ts'
import {
  assertOwnOrigin,
  readerOf,
  requirePersonOnly,
  toFailedOrder,
} from '../visitors/visitors.ts'
import { confirmRequest, FormSchema, type RequestForm, requestPage } from './page.ts'

const BodySchema = Type.Object({
  ...FormSchema.properties,
  confirmed: Type.Optional(Type.Literal('yes')),
})

/** `GET /request` asks which certificate, `POST` shows what would happen, and makes the request once that is confirmed. */
export const requestPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requirePersonOnly(app)
  const pageSchema = { hide: true, querystring: Type.Partial(FormSchema) }
  app.get(REQUEST_PATH, { onRequest, schema: pageSchema }, async (request, reply) => {
    requireIssuable(request)
    const form = { domain: '', names: '', keyType: '' as const, ...request.query }
    return sendPage(reply, 200, requestPage(readerOf(request), form))
  })
  const formSchema = { hide: true, body: BodySchema }
  app.post(REQUEST_PATH, { onRequest, schema: formSchema }, async (request, reply) => {
    assertOwnOrigin(request)
    const { confirmed, ...form } = request.body
    let issuanceRequest: IssuanceRequest
    try {
      issuanceRequest = readRequest(request, form)
    } catch (error) {
      return refuse(reply, form, error)
    }
    if (confirmed) return issue(reply, issuanceRequest)
    const run = await app.dryRun(issuanceRequest, actorOf(request))
    const reader = readerOf(request)
    return sendPage(reply, 200, dryRunPage(reader, run, confirmRequest(reader.lang, form)))
  })
}

/** Shows no form to those for whom every name would be refused. @throws CertError `CERT_NAME_NOT_ALLOWED` */
function requireIssuable({ server, optionalPerson: person }: FastifyRequest): void {
  if (person && server.policy.namesOf(person, 'issue', 'server').length > 0) return
  throw new CertError('CERT_NAME_NOT_ALLOWED', 'you may not request certificates')
}

function readRequest(
  request: FastifyRequest,
  { domain, names: text, keyType }: RequestForm,
): IssuanceRequest {
  const names = text.split(/[\s,]+/).filter((name) => name !== '')
  if (names.length >= MAX_NAMES)
    throw new PkiError('PKI_NAME_INVALID', `more than ${MAX_NAMES} names in all`)
  const fields = { domain: domain.trim(), names, keyType: keyType || undefined }
  return parseRequest(fields, request.server.issuers, (parsed) =>
    authorize(request, 'issue', parsed, 'server'),
  )
}

/** Shows the form again with what is wrong. @throws the error, if no other input would help */
function refuse(reply: FastifyReply, form: RequestForm, error: unknown): FastifyReply {
  if (!(error instanceof PkiError || error instanceof TitledError)) throw error
  if (hasCode(error, 'STORE_STATEMENT_FAILED')) throw error
  const [{ pointer = '' } = {}] = (error as { errors?: { pointer?: string }[] }).errors ?? []
  const reader = readerOf(reply.request)
  const objection = {
    detail: error.message,
    isAboutNames: pointer.startsWith('/names'),
    action: adviceFor(reader.lang, error.code),
  }
  return sendPage(reply, STATUS_OF[error.code] ?? 400, requestPage(reader, form, objection))
}

/** Makes a request. A certificate that is held is shown, but not handed out, so nothing is audited. */
async function issue(reply: FastifyReply, issuanceRequest: IssuanceRequest): Promise<FastifyReply> {
  const { issuance } = reply.server
  const certificate = await issuance.find(issuanceRequest)
  if (certificate) return reply.redirect(certificateHref(certificate.record), 303)
  try {
    const obtained = await issuance.obtain(issuanceRequest, actorOf(reply.request))
    if (!obtained.certificate) return reply.redirect(orderHref(obtained.order), 303)
    const { record } = obtained.certificate
    keepDone(reply, { action: 'request', domain: record.names[0] ?? '' })
    return reply.redirect(certificateHref(record), 303)
  } catch (error) {
    return toFailedOrder(error, reply)
  }
}
