import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'

/** What a provider does instead of answering well, or what it makes of the JSON that it would send. */
export type Hostility =
  | 'error'
  | 'html'
  | 'huge'
  | 'limited'
  | 'not json'
  | 'redirect'
  | 'silent'
  | 'torn'
  | { readonly status: number; readonly json: unknown }
  | ((answer: Record<string, unknown>) => unknown)

/** Lets a well-behaved server misbehave: whatever `hostilityAt` says for a path. */
export function hostile(
  listener: RequestListener,
  hostilityAt: (path: string) => Hostility | undefined,
): RequestListener {
  return (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://stand-in')
    const hostility = hostilityAt(pathname)
    if (typeof hostility === 'function') alter(response, hostility)
    else if (hostility) return misbehave(request, response, hostility)
    listener(request, response)
  }
}

function misbehave(
  request: IncomingMessage,
  response: ServerResponse,
  hostility: Exclude<Hostility, (answer: Record<string, unknown>) => unknown>,
): void {
  const answer = (status: number, type: string, body: string) =>
    response.writeHead(status, { 'content-type': type }).end(body)
  if (typeof hostility === 'object')
    return void answer(hostility.status, 'application/json', JSON.stringify(hostility.json))
  switch (hostility) {
    case 'error':
      return void answer(500, 'application/json', '{"error":"server_error"}')
    case 'limited':
      return void answer(429, 'application/json', '{"error":"slow_down"}')
    case 'html':
      return void answer(200, 'text/html', '<title>Please sign in</title>')
    case 'not json':
      return void answer(200, 'application/json', '{"issuer": ')
    case 'huge':
      return void answer(200, 'application/json', JSON.stringify({ pad: 'x'.repeat(5_242_880) }))
    case 'redirect':
      return void response.writeHead(302, { location: request.url ?? '/' }).end()
    case 'torn':
      return void response
        .writeHead(200, { 'content-length': '1000' })
        .write('{', () => response.destroy())
    case 'silent':
      return
  }
}

/** Changes the JSON on its way out. */
function alter(
  response: ServerResponse,
  change: (answer: Record<string, unknown>) => unknown,
): void {
  const { end } = response
  response.end = ((body: string | Buffer) => {
    const altered = JSON.stringify(change(JSON.parse(String(body))))
    response.setHeader('content-length', Buffer.byteLength(altered))
    return end.call(response, altered, 'utf8')
  }) as ServerResponse['end']
}
