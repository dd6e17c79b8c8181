import type { OutgoingHttpHeaders } from 'node:http'
import { HEADER_NAMES } from '@gatehouse/gate'
import type { InjectOptions } from 'light-my-request'
import { withoutSessionCookies } from '../web/cookies.ts'
import {
  APPEND_IF_EXISTS_OR_ADD,
  type CheckRequest,
  type CheckResponse,
  OK,
  OVERWRITE_IF_EXISTS_OR_ADD,
  PERMISSION_DENIED,
} from './messages.ts'

/** Headers that a proxy sets, and those of a body. `X-Original-URL` is kept: it says that an app may read another path. */
const DROPPED_HEADERS: ReadonlySet<string> = new Set([
  ...HEADER_NAMES.read.filter((name) => name !== 'x-original-url'),
  'connection',
  'content-encoding',
  'content-length',
  'host',
  'transfer-encoding',
])

/** Headers of an answer that Envoy writes itself. */
const FRAMING: readonly string[] = [
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'transfer-encoding',
]

/**
 * The request for the HTTP check that a gRPC check stands for, and its portal. The context extensions of the filter
 * name the portal, and are the query of the check; the client has no part in them.
 *
 * @param onlyPortal - the portal that need not be named, if there is but one
 */
export function toCheck(
  { attributes }: CheckRequest,
  { basePath, onlyPortal }: { readonly basePath: string; readonly onlyPortal: string | undefined },
): { readonly portal: string; readonly request: InjectOptions } {
  const http = attributes?.request?.http
  if (!http) throw new Error('the CheckRequest has no HTTP request')
  // Without either, the problem that Fastify answers with says what is missing.
  const { portal = onlyPortal ?? 'context_extensions.portal', ...query } =
    attributes.contextExtensions
  const clientHeaders = Object.entries(http.headers).filter(
    ([name]) => !name.startsWith(':') && !DROPPED_HEADERS.has(name),
  )
  // Only the address that Envoy names: the header may come from the client.
  const source = attributes.source?.address?.socketAddress?.address ?? 'unknown'
  return {
    portal,
    request: {
      method: 'GET',
      url: `${basePath}/portals/${encodeURIComponent(portal)}?${new URLSearchParams(query)}`,
      headers: {
        'user-agent': undefined,
        ...Object.fromEntries(clientHeaders),
        host: http.host,
        'x-forwarded-method': http.method,
        'x-forwarded-proto': http.scheme,
        'x-forwarded-host': http.host,
        'x-forwarded-uri': http.path,
        'x-forwarded-for': source,
      },
    },
  }
}

interface HttpAnswer {
  readonly statusCode: number
  readonly headers: OutgoingHttpHeaders
  readonly payload: string
}

/**
 * The response to Envoy. A request that may pass loses its session cookies, and every identity header
 * that it came with.
 *
 * @param identity - names of the identity headers of the portal; undefined if there is no portal
 */
export function toResponse(
  { statusCode, headers, payload }: HttpAnswer,
  identity: readonly string[] | undefined,
  { attributes }: CheckRequest,
): CheckResponse {
  if (statusCode !== 200 || !identity) return denied({ statusCode, headers, payload })
  // A header of Node.js is its bytes, a text of gRPC is encoded in UTF-8.
  const textOf = (name: string) => Buffer.from(String(headers[name] ?? ''), 'latin1').toString()
  const forApp = Object.fromEntries(identity.map((name) => [name, textOf(name)]))
  const cookie = attributes?.request?.http?.headers.cookie
  if (cookie !== undefined) forApp.cookie = withoutSessionCookies(cookie)
  if (headers.authorization !== undefined) forApp.authorization = textOf('authorization')
  const entries = Object.entries(forApp)
  const appendAction = OVERWRITE_IF_EXISTS_OR_ADD
  return {
    status: { code: OK },
    okResponse: {
      headers: entries
        .filter(([, value]) => value !== '')
        .map(([key, value]) => ({ header: { key, value }, appendAction })),
      headersToRemove: entries.filter(([, value]) => value === '').map(([key]) => key),
    },
  }
}

/** Creates a refusal that Envoy takes for a decision, while a gRPC error passes under `failure_mode_allow`. */
export function denied({ statusCode, headers, payload }: HttpAnswer): CheckResponse {
  const entries = Object.entries(headers).filter(([name]) => !FRAMING.includes(name))
  return {
    status: { code: PERMISSION_DENIED },
    deniedResponse: {
      // An unknown portal has no identity headers, and must not pass by any answer.
      status: { code: statusCode === 200 ? 403 : statusCode },
      headers: entries.flatMap(([key, value]) =>
        [value].flat().map((text, i) => ({
          header: { key, value: String(text) },
          appendAction: i === 0 ? OVERWRITE_IF_EXISTS_OR_ADD : APPEND_IF_EXISTS_OR_ADD,
        })),
      ),
      body: payload,
    },
  }
}
