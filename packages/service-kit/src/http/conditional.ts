import type { FastifyRequest } from 'fastify'

/** Whether `If-None-Match` holds this tag, which is a strong one (RFC 9110 section 13.1.2). */
export function hasTag(request: Pick<FastifyRequest, 'headers'>, etag: string): boolean {
  const header = request.headers['if-none-match']
  if (header === undefined) return false
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etag) || tags.includes('*')
}
