import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { BROWSER } from './shapes.ts'

export interface Visit {
  readonly method?: 'GET' | 'POST' | 'HEAD'
  readonly headers?: Record<string, string>
  readonly remoteAddress?: string
}

/** A browser whose requests are injected: one jar of cookies, redirects followed by hand. */
export function createVisitor(app: FastifyInstance) {
  const jar = new Map<string, string>()

  async function open(url: string | URL, visit: Visit = {}): Promise<LightMyRequestResponse> {
    const { host, pathname, search } = new URL(url)
    const answer = await app.inject({
      method: visit.method ?? 'GET',
      url: `${pathname}${search}`,
      headers: { ...BROWSER, host, ...(jar.size > 0 && { cookie: cookies() }), ...visit.headers },
      ...(visit.remoteAddress && { remoteAddress: visit.remoteAddress }),
    })
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) keep(line)
    return answer
  }

  function keep(line: string): void {
    const [, name = '', value = '', attributes = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? []
    if (attributes.includes('Max-Age=0;')) jar.delete(name)
    else jar.set(name, value)
  }

  function cookies(): string {
    return [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  return { open, jar, cookies }
}

export type Visitor = ReturnType<typeof createVisitor>
