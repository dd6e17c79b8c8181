import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { ownProblem, type Problem, type ProblemOptions, sendProblem } from './problem.ts'

/**
 * Refuses requests that a proxy may interpret differently: those with two Host headers, and those
 * with an encoded body. Answers 503 to new requests while the service stops, and sets
 * `X-Content-Type-Options: nosniff` on every answer.
 */
export const strictHttp = fp<Pick<ProblemOptions, 'docsUrl'>>(
  async (app: FastifyInstance, { docsUrl }) => {
    let isStopping = false
    app.addHook('preClose', async () => {
      isStopping = true
    })
    app.addHook('onRequest', (request, reply, done) => {
      reply.header('x-content-type-options', 'nosniff')
      if (isStopping) return sendProblem(reply.header('retry-after', 1), stopping(docsUrl))
      const problem = faultOf(request, docsUrl)
      if (problem) return sendProblem(reply.header('connection', 'close'), problem)
      // Some clients send a content type without a body.
      if (request.method === 'DELETE' && !hasBody(request)) delete request.headers['content-type']
      done()
    })
  },
  { fastify: '5.x', name: 'service-kit/strict-http' },
)

function stopping(docsUrl: ProblemOptions['docsUrl']): Problem {
  return ownProblem('NOT_READY', 503, 'The service is stopping.', docsUrl)
}

function faultOf(request: FastifyRequest, docsUrl: ProblemOptions['docsUrl']): Problem | undefined {
  const { headers, raw } = request
  if (hasTwoHosts(raw.rawHeaders))
    return ownProblem('HTTP_INVALID', 400, 'The request has more than one Host header.', docsUrl)

  const transfer = headers['transfer-encoding']
  if (transfer !== undefined && transfer.trim().toLowerCase() !== 'chunked') {
    const detail = 'The body has a transfer coding other than `chunked`.'
    return ownProblem('HTTP_ENCODING', 501, detail, docsUrl)
  }
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding.trim().toLowerCase() === 'identity' || !readsBody(request)) return undefined
  const detail = 'The body has a `Content-Encoding`; send it without one.'
  return ownProblem('HTTP_ENCODING', 415, detail, docsUrl)
}

/** `rawHeaders` alternates names and values. Node uses the first Host header, other software the last. */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  return hosts > 1
}

function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length'] ?? '0'
  return headers['transfer-encoding'] !== undefined || length !== '0'
}

/** A check has the headers of another request, whose body it does not read. */
function readsBody(request: FastifyRequest): boolean {
  const { mediaType, server } = request
  return hasBody(request) && mediaType !== undefined && server.hasContentTypeParser(mediaType)
}
