import { PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import t from 'tap'
import {
  diagnose,
  ECHO,
  type Examination,
  type Exchange,
  FORGED,
  FORGED_ADDRESS,
  FORGED_HOST,
  type HttpAnswer,
} from '../../src/doctor/diagnose.ts'
import type { ProbedCheck } from '../../src/doctor/probes.ts'
import { remedyFor } from '../../src/doctor/remedies.ts'

const SIGN_IN = 'https://auth.example.com/portals/main/signin?rd=x'
const HOP = '__Host-gatehouse-hop.main.0123abcd'
const redirected: HttpAnswer = {
  status: 302,
  headers: { location: SIGN_IN, 'set-cookie': `${HOP}=x; Path=/; Expires=Wed, 02 Jan 2030,own=y` },
  body: '',
}
const denied: HttpAnswer = {
  status: 401,
  headers: { 'www-authenticate': 'Cookie realm="main"', 'set-cookie': `${HOP}=x` },
  body: '{"code":"FWA_NO_SESSION"}',
}
const CHECK: ProbedCheck = {
  ...{ dialect: 'forward', peer: '10.0.0.1', status: 302 },
  request: { method: 'GET', scheme: 'https', host: 'app.example.com', target: '/a?b' },
  clientAddress: '198.51.100.7',
  headers: {
    ...{
      accept: 'text/html',
      'x-forwarded-for': '198.51.100.7',
      referer: 'https://app.example.com/',
    },
    ...{ 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', 'sec-fetch-site': 'none' },
  },
  query: 'policy=any',
  cookieLength: 5,
  setCookies: [HOP],
}
const PAGE: Exchange = {
  ...{ method: 'GET', scheme: 'https', host: 'app.example.com', target: '/a?b', cookieLength: 5 },
  ...{ answer: redirected, checks: [CHECK] },
}
const asking = (asked: Partial<NonNullable<ProbedCheck['request']>>): ProbedCheck => ({
  ...CHECK,
  request: { ...CHECK.request!, ...asked },
})
const GOOD: Examination = {
  page: PAGE,
  back: PAGE,
  program: {
    ...PAGE,
    method: 'POST',
    answer: denied,
    checks: [{ ...asking({ method: 'POST' }), status: 401 }],
  },
  forged: PAGE,
  large: { ...PAGE, cookieLength: 12_000, checks: [{ ...CHECK, cookieLength: 12_000 }] },
  long: PAGE,
  auth: { ...PAGE, host: 'auth.example.com', answer: denied, checks: [] },
}
const told: HttpAnswer = {
  status: 200,
  headers: {},
  body: `User-Agent: ${ECHO}\nX-Forwarded-User: ada\nRemote-Name: Ada\n`,
}
const APP = {
  host: 'app.example.com',
  ...{
    signedIn: told,
    reserved: told,
    believed: told,
    overridden: told,
    upgraded: told,
    taken: {},
  },
  aliased: [told, told, told],
  identity: { 'x-forwarded-user': 'ada', 'remote-name': 'Ada', 'remote-groups': '' },
  sessionCookie: '__Host-gatehouse-app.main=eyJ',
}

const taking = (name: string, body: string, status = 200) =>
  app({ taken: { [name]: { ...ok, status, body } } })

const page = (checks: Partial<ProbedCheck>, answer = redirected): Partial<Examination> => ({
  page: { ...PAGE, answer, checks: [{ ...CHECK, ...checks }] },
})
const CALL = { 'mcp-method': FORGED, 'mcp-name': FORGED }
const calling = (headers: Record<string, string>): Partial<Examination> => ({
  program: {
    ...GOOD.program,
    calls: Object.keys(CALL),
    checks: GOOD.program.checks.map((check) => ({
      ...check,
      headers: { ...check.headers, ...headers },
    })),
  },
})
const without = (...names: string[]) =>
  Object.fromEntries(Object.entries(CHECK.headers).filter(([name]) => !names.includes(name)))
const at = (location: string | undefined): HttpAnswer => ({
  ...redirected,
  headers: { ...redirected.headers, location },
})
const unread = (code: string, message = '', rest: Partial<ProbedCheck> = {}) =>
  page({ request: undefined, status: 400, code, message, ...rest }, { ...redirected })
const forged = (check: Partial<ProbedCheck>): Partial<Examination> => ({
  forged: { ...PAGE, checks: [{ ...CHECK, ...check }] },
})
const silent = (answer: HttpAnswer): Partial<Examination> => ({
  page: { ...PAGE, answer, checks: [] },
  program: { ...GOOD.program, answer, checks: [] },
})
const app = (changes: Partial<typeof APP>): Partial<Examination> => ({
  app: { ...APP, ...changes },
})
const receiving = (body: string, sent = 'signedIn') =>
  app({ [sent]: { status: 200, headers: {}, body: `${body}\nUser-Agent: ${ECHO}` } } as Partial<
    typeof APP
  >)
const ok = { status: 200, headers: {}, body: 'hello' }
/** The sign-in page, which gives a browser a cookie and looks whether it comes back. */
const sentRound = { status: 303, headers: { 'set-cookie': 'own=y', location: SIGN_IN }, body: '' }

const TABLE: readonly [seen: Partial<Examination>, mistakes: readonly string[], said?: RegExp][] = [
  [{}, []],
  [app({}), []],
  [silent(ok), ['unprotected'], /answers 200 without a check/],
  [page({ status: 200 }, ok), ['open'], /A rule lets anyone pass at app\.example\.com/],
  [silent({ ...ok, status: 502 }), ['unreachable'], /answers 502/],
  [{ signIn: { first: sentRound } }, []],
  [{ signIn: { first: { ...sentRound, headers: {} } } }, ['auth-cookies'], /receives the cookies/],
  [{ signIn: { first: sentRound, second: ok } }, []],
  [
    { signIn: { first: sentRound, second: { ...ok, status: 400, body: 'FWA_COOKIES_BLOCKED' } } },
    ['auth-cookies'],
    /pages at auth\.example\.com receive no Cookie/,
  ],
  [silent({ ...denied, body: '{"code":"FWA_HEADER_INVALID"}' }), ['target']],
  [page({ code: 'FWA_PEER_UNTRUSTED', request: undefined }), ['untrusted'], /at 10\.0\.0\.1/],
  [
    page({ request: { ...CHECK.request!, host: 'x.example.com' } }),
    ['host'],
    /x\.example\.com, not app/,
  ],
  [page({ request: { ...CHECK.request!, scheme: 'http' } }), ['scheme']],
  [page({ request: { ...CHECK.request!, method: 'HEAD' } }), ['method']],
  [page({ request: { ...CHECK.request!, target: '/a' } }), ['target'], /the path \/a, not \/a\?b/],
  [
    page({ request: { ...CHECK.request!, target: '?b' } }),
    ['stripped'],
    /strips \/a before it asks/,
  ],
  [page({ query: 'b' }), ['query'], /query of the client/],
  [page({ cookieLength: 0 }), ['cookie']],
  [calling({ ...CALL }), []],
  [calling({}), ['calls'], /no mcp-method, mcp-name: rules for tools/],
  [calling({ ...CALL, 'mcp-name': 'a' }), ['calls'], /no mcp-name:/],
  [page({ clientAddress: undefined, headers: without('x-forwarded-for') }), ['client']],
  [page({ headers: without('accept', 'sec-fetch-mode') }), ['navigation']],
  [
    page({ headers: without('sec-fetch-dest', 'referer') }),
    ['navigation'],
    /no sec-fetch-dest, referer,/,
  ],
  [
    page({}, { ...redirected, headers: { location: SIGN_IN } }),
    ['set-cookie'],
    /With 302, no client receives the cookie __Host/,
  ],
  [
    {
      program: {
        ...GOOD.program,
        answer: { ...denied, headers: { 'www-authenticate': 'Cookie realm=' } },
      },
    },
    ['set-cookie'],
    /With 401, no client receives/,
  ],
  [{ back: { ...PAGE, answer: ok } }, ['set-cookie'], /With 200, no client/],
  [{ back: { ...PAGE, answer: ok, checks: [{ ...CHECK, setCookies: [] }] } }, []],
  [silent({ ...ok, status: 0 }), ['hangs'], /within 10 seconds/],
  [
    app({ signedIn: { ...ok, status: 0 } }),
    ['hangs'],
    /app\.example\.com does not answer a person within/,
  ],
  [app({ signedIn: ok }), []],
  [app({ signedIn: ok, upgraded: { ...ok, status: 101 } }), ['upgrade']],
  [
    app({ reserved: { ...ok, headers: { 'x-forwarded-user': 'ada' } } }),
    ['check-shown'],
    /for the proxy/,
  ],
  [unread('FWA_HEADER_INVALID', 'X-Forwarded-Method is missing'), ['method']],
  [unread('FWA_HEADER_INVALID', 'X-Forwarded-Proto is missing'), ['scheme']],
  [unread('FWA_HEADER_INVALID', 'X-Forwarded-Host is missing'), ['host']],
  [unread('FWA_HEADER_INVALID', 'X-Original-URL is missing'), ['target']],
  [unread('FWA_HEADER_INVALID', 'X-Original-* holds no valid scheme'), ['scheme']],
  [unread('FWA_HEADER_INVALID', 'X-Original-* holds no valid path'), ['target']],
  [unread('FWA_HOST_UNKNOWN'), ['host']],
  [unread('FWA_NOT_FOUND', 'there is no portal of this name'), ['other'], /FWA_NOT_FOUND/],
  [
    forged({
      clientAddress: FORGED_ADDRESS,
      headers: { ...CHECK.headers, 'x-forwarded-for': FORGED_ADDRESS },
    }),
    ['forged'],
    /forge X-Forwarded-For:/,
  ],
  [
    // The proxy named its client after it: the doctor, on a machine that is trusted.
    forged({
      clientAddress: FORGED_ADDRESS,
      headers: { ...CHECK.headers, 'x-forwarded-for': `${FORGED_ADDRESS}, 127.0.0.1` },
    }),
    [],
  ],
  [
    forged({
      request: undefined,
      code: 'FWA_HOST_UNKNOWN',
      headers: { 'x-forwarded-host': FORGED_HOST },
    }),
    ['forged'],
    /forge X-Forwarded-Host:/,
  ],
  [
    forged({
      request: undefined,
      dialect: 'nginx',
      code: 'FWA_HOST_UNKNOWN',
      headers: { 'x-original-url': `https://${FORGED_HOST}/` },
    }),
    ['forged'],
    /forge X-Original-URL:/,
  ],
  [
    forged(asking({ scheme: 'http', method: 'OPTIONS', target: `/${FORGED}` })),
    ['forged'],
    /Proto, X-Forwarded-Method, X-Forwarded-Uri/,
  ],
  [page({}, at(undefined)), ['redirect'], /302 without Location/],
  [page({}, at('https://elsewhere.test/')), ['redirect']],
  [
    { program: { ...GOOD.program, answer: { ...denied, headers: { 'set-cookie': `${HOP}=x` } } } },
    ['challenge'],
  ],
  [
    { program: { ...GOOD.program, answer: { ...denied, status: 500 } } },
    ['status'],
    /500, where the check answers 401/,
  ],
  [
    { large: { ...GOOD.large, answer: { ...ok, status: 431 }, checks: [] } },
    ['request-size'],
    /answers 431/,
  ],
  [{ large: { ...GOOD.large, checks: [{ ...CHECK, cookieLength: 4_000 }] } }, ['request-size']],
  [{ long: { ...PAGE, answer: { ...ok, status: 502 } } }, ['answer-size'], /answers 502/],
  [{ auth: { ...GOOD.auth, checks: [CHECK] } }, ['auth-protected']],
  [
    {
      auth: { ...GOOD.auth, answer: { ...ok, status: 403, body: '{"code":"FWA_HOST_RESERVED"}' } },
    },
    ['auth-protected'],
  ],
  [
    { auth: { ...GOOD.auth, answer: { ...ok, status: 403, body: '{"code":"FWA_HOST_UNKNOWN"}' } } },
    ['auth-host'],
  ],
  [{ auth: { ...GOOD.auth, answer: { ...ok, status: 404 } } }, ['auth-missing'], /answers 404/],
  [
    app({
      signedIn: {
        status: 401,
        headers: { 'www-authenticate': 'Gatehouse realm="https://auth.example.com/portals/main"' },
        body: '{"code":"AUTH_ASSERTION_MISSING"}',
      },
    }),
    ['assertion'],
    /no assertion that it accepts/,
  ],
  [
    app({ signedIn: { ...ok, status: 403, body: '{"code":"FWA_FORBIDDEN"}' } }),
    ['signed-in'],
    /403 \(FWA_FORBIDDEN\)/,
  ],
  [
    receiving(`X-Forwarded-User: ${FORGED}\nRemote-Name: Ada`),
    ['not-stripped'],
    /x-forwarded-user/,
  ],
  [
    receiving(`{"remote_groups":["${FORGED}"],"x-forwarded-user":"ada","remote-name":"Ada"}`),
    ['not-stripped'],
    /remote-groups/,
  ],
  [receiving('HTTP_X_FORWARDED_USER=ada'), ['not-copied'], /does not receive remote-name/],
  [receiving('X-Forwarded-User: \nRemote-Name: Ada'), ['not-copied'], /x-forwarded-user/],
  [app({ aliased: [told, told, { ...ok, body: `X~Forwarded~User: ${FORGED}` }] }), ['aliases']],
  [app({ upgraded: { ...ok, status: 101 } }), ['upgrade'], /leave every check behind/],
  [receiving('upgrade-insecure-requests: h2c\nUpgrade: h2c', 'upgraded'), ['upgrade']],
  [receiving('upgrade-insecure-requests: h2c', 'upgraded'), []],
  [receiving(`Destination: ${FORGED}`, 'overridden'), ['overrides'], /receives destination, which/],
  [
    {
      ...receiving(`Destination: ${FORGED}`, 'overridden'),
      ...forged({ headers: { ...CHECK.headers, destination: FORGED } }),
    },
    [],
  ],
  [receiving(`HTTP_X_REAL_IP=${FORGED}`, 'believed'), ['believed'], /forge x-real-ip/],
  [receiving(`Client-Forwarded: ${FORGED}`, 'believed'), []],
  [taking('x-forwarded-user', 'Remote-Name: Ada'), ['taken'], /take x-forwarded-user away/],
  [taking('remote-name', 'X-Forwarded-User: ada'), ['taken'], /take remote-name away/],
  [taking('remote-name', `Connection: close, remote-name\n${told.body}`), ['taken'], /remote-name/],
  [taking('remote-name', `Connection: close\n${told.body}`), []],
  [taking('remote-name', '', 400), []],
  [receiving(`Host: upstream:80\n${told.body}`), ['app-host'], /told the host upstream/],
  [receiving(`Host: app.example.com\nX-Forwarded-Host: other\n${told.body}`), []],
  // It is worth nothing at another app.
  [receiving(`${told.body}Cookie: __Host-gatehouse-app.main=eyJhbGc`), []],
  [
    app({
      sessionCookie: '__Secure-gatehouse-app.main=eyJ',
      signedIn: { ...told, body: `${told.body}Cookie: __Secure-gatehouse-app.main=eyJhbGc` },
    }),
    ['session-shown'],
    /receives the session cookie of its domain/,
  ],
]

t.test('each mistake is named', async (t) => {
  for (const [seen, mistakes, said] of TABLE) {
    const findings = diagnose({ ...GOOD, ...seen })
    const named = findings.map(({ mistake }) => mistake)
    t.strictSame(named, mistakes, JSON.stringify(findings))
    if (said) t.match(findings[0]?.text, said)
  }
})

t.test('a mistake that several checks show is named once', async (t) => {
  const checks = [{ ...CHECK, cookieLength: 0 }]
  const seen = { ...GOOD, page: { ...PAGE, checks: [...checks, ...checks] } }
  t.match(diagnose(seen), [{ mistake: 'cookie' }])
  t.equal(diagnose(seen).length, 1)
})

/** Mistakes that no line of the others cures. */
const CURED_BY: Readonly<Record<string, readonly string[]>> = {
  ...{
    other: [],
    open: [],
    'signed-in': [],
    hangs: [],
    'check-shown': ['nginx'],
    taken: ['caddy', 'haproxy'],
    query: ['caddy'],
    'session-shown': PROXY_NAMES.filter((name) => name !== 'traefik'),
  },
}

t.test('every proxy has a line to look at for each mistake that the line can cure', async (t) => {
  const mistakes = new Set(TABLE.flatMap(([, named]) => named))
  for (const proxy of PROXY_NAMES)
    for (const mistake of mistakes) {
      if (!(CURED_BY[mistake]?.includes(proxy) ?? true)) continue
      t.ok(remedyFor(mistake as Parameters<typeof remedyFor>[0], proxy), `${proxy}: ${mistake}`)
    }
  t.match(remedyFor('untrusted', undefined), 'server.trustedProxies')
  t.equal(remedyFor('cookie', undefined), undefined)
})
