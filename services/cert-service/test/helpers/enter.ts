import type { Running } from './app.ts'
import { HOST } from './browse.ts'

export interface Sent {
  readonly cookie?: string
  readonly origin?: string | undefined
  readonly body?: string
  readonly type?: string
}

/** A request as a browser sends it. */
export async function browse(
  { app }: Running,
  method: 'GET' | 'POST',
  url: string,
  { cookie, body, type, ...sent }: Sent = {},
) {
  const origin = 'origin' in sent ? sent.origin : `https://${HOST}`
  const response = await app.inject({
    method,
    url,
    headers: {
      host: HOST,
      ...(cookie && { cookie }),
      ...(method === 'POST' && origin !== undefined && { origin }),
      ...(method === 'POST' && { 'content-type': type ?? 'application/x-www-form-urlencoded' }),
    },
    ...(method === 'POST' && { payload: body ?? '' }),
  })
  const [set = ''] = [response.headers['set-cookie'] ?? []].flat()
  return {
    status: response.statusCode,
    headers: response.headers,
    text: response.payload,
    set,
    cookie: set.split(';', 1)[0] ?? '',
    names: [...response.payload.matchAll(/<b title="[^"]*">([^<]+)<\/b>/g)].map(([, name]) => name),
  }
}

/** Enters an API key at the form. */
export const enter = (running: Running, key: string, sent: Sent = {}) =>
  browse(running, 'POST', '/', { body: `${new URLSearchParams({ key })}`, ...sent })
