import { HEADER_NAMES } from '@gatehouse/gate'
import { PROXIES } from '@gatehouse/service-kit/proxies'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { type KeyRing, sealValue, unsealValue } from '../keys/key-ring.ts'

/** The prefix of the token of a probe, in User-Agent or in the requested path. */
export const PROBE_MARK = 'gatehouse-doctor/'
export const REPORT_PATH = '/api/doctor'
const TOKEN = /^[\w-]{1,100}/
const PURPOSE = 'probe of gatehouse-auth doctor'
const LIFETIME = 60_000
const MAX_PROBES = 200
/** Each of several proxies asks once. */
const MAX_CHECKS = 8
const MAX_TEXT = 16_384
/** The headers that tell a navigation from a call, and the origin of a call. */
export const NAVIGATION = ['sec-fetch-mode', 'sec-fetch-dest', 'sec-fetch-site', 'referer'] as const
const RECORDED_HEADERS: readonly string[] = [
  ...new Set([
    ...HEADER_NAMES.read,
    ...HEADER_NAMES.methodOverrides,
    ...HEADER_NAMES.pathOverrides,
    ...HEADER_NAMES.calls,
  ]),
  ...Object.values(PROXIES).flatMap(({ mark = [] }) => mark),
  'host',
  'accept',
  ...NAVIGATION,
]

export type ProbedRequest = Readonly<Record<'method' | 'scheme' | 'host' | 'target', string>>

/** A check that refused a probe, as it arrived. */
export interface ProbedCheck {
  /** Name of the dialect whose route was asked. */
  readonly dialect: string
  /** Address of the proxy. */
  readonly peer: string
  readonly status: number
  readonly code?: string | undefined
  readonly message?: string | undefined
  /** The request that the check was about; absent if it could not be read. */
  readonly request?: ProbedRequest | undefined
  readonly clientAddress?: string | undefined
  /** The headers that say what the check is about, by name in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The query of the URL of the check. */
  readonly query: string
  readonly cookieLength: number
  /** The names of the cookies that the answer sets. */
  readonly setCookies: readonly string[]
}

/** Makes the token of a probe: it can only be recorded, and lets nothing pass. */
export function createProbe(keys: KeyRing, now: number): string {
  return sealValue(now + LIFETIME, keys, PURPOSE)
}

/** The token of a probe, if it is valid now. */
function readProbe(text: string, keys: KeyRing, now: number): string | undefined {
  const start = text.indexOf(PROBE_MARK)
  const [token] = (start >= 0 && TOKEN.exec(text.slice(start + PROBE_MARK.length))) || []
  const expiresAt = unsealValue<number>(token, keys, PURPOSE)
  const isCurrent = expiresAt !== undefined && now < expiresAt && expiresAt <= now + LIFETIME
  return isCurrent ? token : undefined
}

const cookieName = (header: unknown) => String(header).split('=', 1).join()

function probesOf(app: FastifyInstance) {
  const checksByToken = new LRUCache<string, ProbedCheck[]>({ max: MAX_PROBES })
  const errors = new WeakMap<FastifyRequest, { code?: string; message?: string }>()

  /** The token of a probe, in any of the texts in which a proxy may pass it on. */
  function find({ raw: { url, headers } }: FastifyRequest): string | undefined {
    const { 'user-agent': agent, 'x-forwarded-uri': uri, 'x-original-url': original } = headers
    for (const text of [agent, uri, original, url]) {
      const token = readProbe(String(text ?? ''), app.keys.login, app.clock.now())
      if (token !== undefined) return token
    }
    return undefined
  }

  /** Keeps what arrived with a check that was refused, if it is a probe. */
  function keep(request: FastifyRequest, reply: FastifyReply): void {
    const token = find(request)
    if (token === undefined) return
    const checks = checksByToken.get(token) ?? []
    if (checks.length < MAX_CHECKS) checks.push(describe(request, reply))
    checksByToken.set(token, checks)
  }

  function describe(request: FastifyRequest, reply: FastifyReply): ProbedCheck {
    const { check, raw } = request
    const answer = request.sealedAnswer ?? { status: reply.statusCode, headers: reply.getHeaders() }
    const { code, message } = errors.get(request) ?? {}
    const { method, scheme, authority, target } = check?.forwarded ?? {}
    const [, dialect = 'forward'] = /\/authz\/([\w-]+)/.exec(request.routeOptions.url ?? '') ?? []
    return {
      dialect,
      peer: raw.socket.remoteAddress ?? '',
      status: answer.status,
      code,
      message,
      request: check && ({ method, scheme, host: authority, target } as ProbedRequest),
      clientAddress: app.trust.clientIp(raw),
      headers: Object.fromEntries(
        RECORDED_HEADERS.filter((name) => raw.headers[name] !== undefined).map((name) => [
          name,
          String(raw.headers[name]).slice(0, MAX_TEXT),
        ]),
      ),
      query: raw.url?.split('?').slice(1).join('?') ?? '',
      cookieLength: raw.headers.cookie?.length ?? 0,
      setCookies: [answer.headers['set-cookie'] ?? []].flat().map(cookieName),
    }
  }

  return {
    find,
    keep,
    noteError: (request: FastifyRequest, error: Error): void => void errors.set(request, error),
    report: (token: string): readonly ProbedCheck[] => checksByToken.get(token) ?? [],
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly probes: ReturnType<typeof probesOf>
  }
}

/**
 * Keeps for a minute what arrives with the checks of `gatehouse-auth doctor`, for whoever holds the
 * token of the probe. A probe has no session, so that checks refuse it like any other request.
 */
export const probes = fp(
  async (app: FastifyInstance) => {
    app.decorate('probes', probesOf(app))
    app.get(REPORT_PATH, { schema: { hide: true } }, async (request, reply) => {
      const token = app.probes.find(request)
      if (token === undefined) return reply.callNotFound()
      return reply.header('cache-control', 'no-store').send(app.probes.report(token))
    })
  },
  {
    name: 'forward-auth/probes',
    dependencies: ['forward-auth/keys', 'service-kit/trust', 'service-kit/clock'],
  },
)
