import type { Test } from 'tap'
import { createIdp, KEY, NOW, type Running, start } from './app.ts'

export const HOST = 'certs.example.com'
export const ORIGIN = `https://${HOST}`

export interface Sent {
  readonly assertion?: string | undefined
  readonly cookie?: string | undefined
  /** Sent as a form by POST. */
  readonly body?: Record<string, string>
  readonly origin?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** The service behind a portal: `person` makes the assertion about somebody. */
export async function behindPortal(t: Test, changes: object) {
  const portal = await createIdp(t, () => NOW)
  const assertion = { issuerUrl: portal.issuerUrl, audience: ORIGIN }
  const running = await start(t, { auth: { psk: { key: KEY }, assertion }, ...changes })
  const person = (claims: object = {}) => portal.assertion({ aud: ORIGIN, ...claims })
  return { running, person }
}

/** A request as a browser sends it, and what a person sees of the answer. */
export async function browse({ app }: Running, url: string, sent: Sent = {}) {
  const { assertion, body, cookie } = sent
  const origin = 'origin' in sent ? sent.origin : ORIGIN
  const answer = await app.inject({
    method: body ? 'POST' : 'GET',
    url,
    headers: {
      host: HOST,
      ...(assertion !== undefined && { 'x-gatehouse-assertion': assertion }),
      ...(cookie !== undefined && { cookie }),
      ...(body && { 'content-type': 'application/x-www-form-urlencoded' }),
      ...(body && origin !== undefined && { origin }),
      ...sent.headers,
    },
    ...(body && { payload: `${new URLSearchParams(body)}` }),
  })
  const cookies = [answer.headers['set-cookie'] ?? []].flat()
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.payload,
    /** Without markup, white space folded. */
    said: answer.payload
      .replace(/<style>.*?<\/style>/s, '')
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' '),
    location: answer.headers.location,
    cookies,
    /** What a browser sends back. */
    cookie: cookies.map((one) => one.split(';', 1)[0]).join('; '),
  }
}
