import { createHmac } from 'node:crypto'

/**
 * The headers by which a receiver knows that a body is ours and new: an HMAC with SHA-256 over the
 * Unix time, a dot and the body.
 */
export function signatureHeaders(
  body: string,
  secret: string,
  now: number,
): Record<'x-gatehouse-timestamp' | 'x-gatehouse-signature', string> {
  const timestamp = String(Math.floor(now / 1000))
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  return { 'x-gatehouse-timestamp': timestamp, 'x-gatehouse-signature': `sha256=${signature}` }
}
