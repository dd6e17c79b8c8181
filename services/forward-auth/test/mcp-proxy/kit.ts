import type { LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import type { RequestHeaders } from '../shapes.ts'

export const READER = 'key-of-one-who-reads-0123456789abcdef'
export const WRITER = 'key-of-one-who-writes-0123456789abcdef'
export const URL = '/portals/main/mcp-proxy/mcp'

const RULES = `
  { hosts: [app.example.com], tools: [read_note, whoami], require: reads },
  { hosts: [app.example.com], tools: [delete_note], require: [reads, writes] }`

interface Options {
  readonly rules?: string
  readonly policies?: string
  /** Of the server. Default: that of the resource. */
  readonly path?: string
  /** Members of the upstream besides its URL. */
  readonly upstream?: string
  readonly more?: string
}

/** A portal with a resource whose requests go through Gatehouse to a server on a port. */
export function yamlFor(port: number, options: Options = {}): string {
  const { rules = RULES, policies = '', path = '/mcp', upstream = '', more = '' } = options
  const portal = `
    callers: { keys: [
      { name: reader, key: ${READER}, hosts: [app.example.com], scopes: ["notes:read"] },
      { name: writer, key: ${WRITER}, hosts: [app.example.com], scopes: ["notes:read", "notes:write"] }] },
    policies: { reads: 'Scope("notes:read")', writes: 'Scope("notes:write")'${policies && `, ${policies}`} },
    resources: [{ url: "https://app.example.com/mcp", upstream: { url: "http://127.0.0.1:${port}${path}"${upstream && `, ${upstream}`} },
      scopes: [{ name: "notes:read", text: Read }, { name: "notes:write", text: Write, onDemand: true }] }],
    rules: [${rules}]${more && `, ${more}`}`
  return yamlOf(portalOf('main', portal.replace(/\s+/g, ' ')))
}

interface ProxyApp extends TestApp {
  send(body: object | string | undefined, options?: SendOptions): Promise<LightMyRequestResponse>
}

interface SendOptions {
  /** An API key. Default: that of the reader. */
  readonly key?: string
  readonly method?: 'POST' | 'GET' | 'DELETE'
  readonly url?: string
  readonly headers?: RequestHeaders
}

/** The service with such a portal. */
export async function startProxy(t: Test, port: number, options: Options = {}): Promise<ProxyApp> {
  const test = await startApp(t, yamlFor(port, options))
  const send: ProxyApp['send'] = (
    body,
    { key = READER, method = 'POST', url = URL, headers = {} } = {},
  ) =>
    test.app.inject({
      method,
      url,
      headers: {
        host: 'app.example.com',
        'x-forwarded-proto': 'https',
        accept: 'application/json, text/event-stream',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== '' && { authorization: `APIKey ${key}` }),
        ...headers,
      },
      ...(body !== undefined && {
        payload: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    })
  return { ...test, send }
}

/** The messages of an answer, in JSON or as events. */
export function messagesIn({ body, headers }: LightMyRequestResponse): object[] {
  if (!String(headers['content-type']).startsWith('text/event-stream')) return [JSON.parse(body)]
  return body
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)))
}
