import type { FastifyRequest } from 'fastify'

const MEDIA_TYPES = ['application/json', 'application/x-www-form-urlencoded'] as const
const MAX_TYPE = 100

/** An error as it is told: Fastify's own, where they do not say what is expected, in other words. */
export function inPlainWords(error: unknown, request: FastifyRequest): object | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code } = error as { code?: unknown }
  if (code !== 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return error
  return { code, statusCode: 415, message: describeMediaType(request) }
}

function describeMediaType({ headers, server }: FastifyRequest): string {
  const given = headers['content-type']?.split(';', 1)[0]?.trim().slice(0, MAX_TYPE)
  const came = given ? `The body is ${given}` : 'The body has no content type'
  const expected = MEDIA_TYPES.filter((type) => server.hasContentTypeParser(type))
  if (expected.length === 0) return `${came}, and this path takes none.`
  const wanted = expected.map((type) => `\`Content-Type: ${type}\``).join(' or ')
  return `${came}, which this path does not take: send the header ${wanted}.`
}
