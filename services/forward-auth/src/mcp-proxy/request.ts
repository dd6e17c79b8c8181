import { isRepeated } from '@gatehouse/service-kit/http'
import { errorCodes, type FastifyRequest } from 'fastify'

/**
 * Reads the body of a request, whose sender is known by then.
 *
 * @throws FastifyError FST_ERR_CTP_INVALID_MEDIA_TYPE, FST_ERR_CTP_BODY_TOO_LARGE
 */
export async function readBody({ raw, headers }: FastifyRequest, maxBody: number): Promise<Buffer> {
  const { 'content-type': type = '', 'content-encoding': encoding } = headers
  const [mediaType = '', ...parameters] = type.toLowerCase().split(';')
  const isUtf8 = parameters.every((parameter) => /^ *charset="?utf-8"? *$/.test(parameter))
  const isJson = mediaType.trim() === 'application/json' && isUtf8
  if (!isJson || encoding !== undefined || isRepeated(raw.rawHeaders, 'content-type'))
    throw new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE(type)
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of raw) {
    length += chunk.length
    // The rest is read and thrown away, since some proxies make an error of their own of an answer that comes earlier.
    if (length <= maxBody) chunks.push(chunk)
    else chunks.length = 0
  }
  if (length > maxBody) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE()
  return Buffer.concat(chunks, length)
}
