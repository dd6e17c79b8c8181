import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { BROWSER, type RequestHeaders } from './shapes.ts'

export interface Visit {
  readonly method?: 'GET' | 'POST' | 'HEAD'
  readonly headers?: RequestHeaders
  readonly remoteAddress?: string
  /** What arrives of the cookies that a host gets. */
  readonly arriving?: ((cookies: string, host: string) => string) | undefined
}

/** A request to the host of an app. */
export interface AppVisit extends Visit {
  readonly portal?: string
  /** Of the URL of the check. */
  readonly query?: string
}

/** The host whose cookies are meant if none is named. */
const SIGN_IN_HOST = 'auth.example.com'

/** A browser whose requests are injected: a jar of cookies per host, redirects followed by hand. */
export function createVisitor(app: FastifyInstance) {
  const jars = new Map<string, Map<string, string>>()

  /** The cookies of one host, or with a dot before it those of all hosts of a domain. */
  function jarOf(host: string): Map<string, string> {
    const jar = jars.get(host) ?? new Map<string, string>()
    jars.set(host, jar)
    return jar
  }

  /** The Cookie header that a host gets, at a path. */
  function cookies(host = SIGN_IN_HOST, path = '/'): string {
    const isSent = (key: string) => {
      const [of = '', ...folders] = key.split('/')
      const isAt = of === host || (of.startsWith('.') && `.${host}`.endsWith(of))
      return isAt && (folders.length === 0 || `${path}/`.startsWith(`/${folders.join('/')}/`))
    }
    const sent = [...jars].filter(([of]) => isSent(of))
    return sent.flatMap(([, jar]) => [...jar].map((pair) => pair.join('='))).join('; ')
  }

  /** Opens a page of the service itself. */
  async function open(url: string | URL, visit: Visit = {}): Promise<LightMyRequestResponse> {
    const { host } = new URL(url)
    return send(url, targetOf(url), visit, { host })
  }

  /** Opens any URL. That of an app is asked about as Traefik does, whose answer the browser gets unless it is a 200. */
  async function visit(url: string | URL, sent: AppVisit = {}): Promise<LightMyRequestResponse> {
    const { protocol, host } = new URL(url)
    if (app.sites.find(host)?.isAuthHost !== false) return open(url, sent)
    const { portal = 'main', query = '', method = 'GET', ...rest } = sent
    return send(url, `/portals/${portal}${query}`, rest, {
      host: SIGN_IN_HOST,
      'x-forwarded-method': method,
      'x-forwarded-proto': protocol.slice(0, -1),
      'x-forwarded-host': host,
      'x-forwarded-uri': targetOf(url),
    })
  }

  async function send(opened: string | URL, url: string, visit: Visit, headers: RequestHeaders) {
    const { hostname: at, pathname } = new URL(opened)
    const { method = 'GET', remoteAddress, arriving = (all) => all } = visit
    const cookie = arriving(cookies(at, pathname), at)
    const answer = await app.inject({
      ...{ method, url },
      headers: { ...BROWSER, ...headers, ...(cookie && { cookie }), ...visit.headers },
      ...(remoteAddress && { remoteAddress }),
    })
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) keep(at, line)
    return answer
  }

  /** Keeps a cookie, or throws if browsers would refuse it. */
  function keep(host: string, line: string): void {
    const [, name = '', value = '', attributes = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? []
    const [, domain] = /; Domain=([^;]+)/.exec(attributes) ?? []
    const isOfHost = name.startsWith('__Host-') && /; Path=\/;/.test(attributes) && !domain
    const isKept = isOfHost || name.startsWith('__Secure-')
    if (
      !isKept ||
      !attributes.includes('; Secure') ||
      (domain && !`.${host}`.endsWith(`.${domain}`))
    )
      throw new Error(`${host} cannot set ${line}`)
    const [, path = ''] = /; Path=(\/[^;]+)/.exec(attributes) ?? []
    const jar = jarOf(`${domain ? `.${domain}` : host}${path}`)
    if (attributes.includes('Max-Age=0;')) jar.delete(name)
    else jar.set(name, value)
  }

  return { open, visit, jarOf, jar: jarOf(SIGN_IN_HOST), cookies }
}

/** What a browser asks for, with an empty query too. */
function targetOf(url: string | URL): string {
  const { href, origin, hash } = new URL(url)
  return href.slice(origin.length, href.length - hash.length)
}

export type Visitor = ReturnType<typeof createVisitor>
