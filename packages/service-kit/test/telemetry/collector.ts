import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export interface Span {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly status: { readonly code?: number }
  readonly attributes: readonly Attribute[]
}

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, string | number>>
}

/** An OTLP/HTTP receiver that keeps what it is sent. It answers by the count of what came before. */
export async function startCollector(
  t: Test,
  statusOf: (count: number) => number | undefined = () => 200,
) {
  const received: { path: string; headers: object; text: string }[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    const status = statusOf(received.length)
    received.push({ path: request.url ?? '', headers: request.headers, text })
    if (status) response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })

  const parsed = (path: string) =>
    received.filter((message) => message.path === path).map(({ text }) => JSON.parse(text))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    spans: (): Span[] =>
      parsed('/v1/traces')
        .flatMap(({ resourceSpans }) => resourceSpans)
        .flatMap(({ scopeSpans }) => scopeSpans)
        .flatMap(({ spans }) => spans),
    resources: (): Record<string, unknown>[] =>
      received.map(({ text }) => {
        const { resourceSpans } = JSON.parse(text)
        return valuesOf(resourceSpans[0].resource.attributes)
      }),
  }
}

export function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
