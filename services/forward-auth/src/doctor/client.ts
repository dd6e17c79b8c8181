import { type ClientRequest, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { certificateFault, codeOf } from '@gatehouse/net'
import type { HttpAnswer } from './diagnose.ts'

const TIMEOUT = 10_000
const MAX_BODY = 1_048_576
/** The answer that stands for one that did not come in time. */
export const HANGS: HttpAnswer = { status: 0, headers: {}, body: '' }

export interface ClientOptions {
  /** The address to connect to, instead of the host and port of the URL. */
  readonly address?: { readonly host: string; readonly port?: number | undefined } | undefined
  /** CA certificates in PEM. */
  readonly ca?: string | undefined
  readonly insecure?: boolean | undefined
}

export type HeaderRecord = Readonly<Record<string, string>>
export type HttpClient = (
  url: URL,
  request: { readonly method?: string; readonly headers: HeaderRecord; readonly body?: string },
) => Promise<HttpAnswer>

/** A client that sends headers as they are and follows no redirects. Time and size are limited. */
export function createClient({ address, ca, insecure = false }: ClientOptions = {}): HttpClient {
  return (url, { method = 'GET', headers, body }) =>
    new Promise((resolve, reject) => {
      const makeRequest = url.protocol === 'https:' ? requestHttps : requestHttp
      const port = address?.port ?? url.port
      const request = makeRequest({
        method,
        path: `${url.pathname}${url.search}`,
        agent: false,
        setHost: false,
        host: address?.host ?? url.hostname.replace(/^\[|\]$/g, ''),
        ...(port !== '' && { port }),
        ...(url.protocol === 'https:' && {
          servername: url.hostname,
          rejectUnauthorized: !insecure,
          ...(ca !== undefined && { ca }),
        }),
        headers: { host: url.host, ...headers },
        signal: AbortSignal.timeout(TIMEOUT),
      })
      request.on('error', (error: NodeJS.ErrnoException) =>
        error.name === 'AbortError' ? resolve(HANGS) : reject(explain(error, url)),
      )
      request.on('upgrade', ({ statusCode: status = 0 }, socket) => {
        socket.destroy()
        resolve({ status, headers: {}, body: '' })
      })
      readAnswer(request, resolve)
      request.end(body)
    })
}

function explain(error: NodeJS.ErrnoException, { host, href }: URL): Error {
  const fault = certificateFault(codeOf(error))
  if (fault === undefined)
    return new Error(`${href} cannot be asked: ${error.message}`, { cause: error })
  const text = `${host}: ${fault} (${error.code}); --ca FILE names a CA of your own`
  return new Error(text, { cause: error })
}

function readAnswer(request: ClientRequest, resolve: (answer: HttpAnswer) => void): void {
  request.on('response', (response) => {
    const { statusCode: status = 0 } = response
    const headers = Object.fromEntries(
      Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
    )
    let body = ''
    response.setEncoding('utf8').on('data', (text) => {
      if (body.length < MAX_BODY) body += text
    })
    response.on('error', (error) => request.destroy(error))
    response.on('end', () => resolve({ status, headers, body }))
  })
}
