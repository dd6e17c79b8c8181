import type { TestApp } from '../app.ts'
import type { Ask } from '../helpers/client.ts'
import type { Situation } from '../proxies/index.ts'

export const SIGN_IN = 'https://auth.example.com/portals/main/signin'
/** Where a check sends people to sign in, without the parameter `hop`, which only Gatehouse can write. */
export const signInFor = (url: string) => `${SIGN_IN}?${new URLSearchParams({ rd: url })}`
const signIn = signInFor('https://app.example.com/')

export const navigation = { accept: 'text/html,*/*;q=0.8', 'sec-fetch-mode': 'navigate' }
export const program = { accept: 'application/json' }
const webSocket = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
}
export const preflight = {
  origin: 'https://other.example.com',
  'access-control-request-method': 'PUT',
}
export const FORGED_REQUEST = {
  'X-Forwarded-For': '192.0.2.66',
  'X-Forwarded-Host': 'evil.example',
  'X-Forwarded-Method': 'OPTIONS',
  'X-Forwarded-Prefix': '/evil',
  'X-Forwarded-Proto': 'http',
  'X-Forwarded-Uri': '/evil',
  'X-Original-Method': 'OPTIONS',
  'X-Original-URL': 'https://evil.example/evil',
}

const CLAIMS = Array.from({ length: 17 }, (_, i) => [`claim${i}`, 'x'.repeat(500)])

/** Those who sign in: the provider says 8 kB of `large`, and `admin` meets the policy. */
const PEOPLE = {
  ada: { sub: 'ada', name: 'Ada' },
  admin: { sub: 'grace', name: 'Grace', groups: ['admins'] },
  large: { sub: 'ada', name: 'Ada', ...Object.fromEntries(CLAIMS) },
  nameless: { sub: 'ada' },
  control: { sub: 'ada', name: 'Ada\r\nX-Forwarded-User: mallory' },
}

/** The cookies of somebody's browser at one host: some of an app before and after that of the session. */
export async function cookiesOf(
  { signIn }: TestApp,
  who: Who,
  host = 'app.example.com',
): Promise<string> {
  return `own=1; ${await signIn('main', PEOPLE[who], { host })}; too=a,b`
}

export type Who = keyof typeof PEOPLE

export interface Case extends Ask {
  readonly who?: Who | undefined
  /** The host whose cookies are sent. Default: that of the request. */
  readonly at?: string
  /** Cookies of the app besides. */
  readonly cookies?: string
  readonly status: number
  /** Where some proxies have a status of their own. */
  readonly situation?: Situation
  readonly location?: string
  /** What the body has to hold. */
  readonly holds?: string
  /** Whom the app takes the client for, '' being nobody; absent: it must hear nothing at all. */
  readonly user?: string
  /** Whether names of headers are spelled otherwise. Without them, the status is 200. */
  readonly isSpelledOtherwise?: true
  /** Of a 401; default: that of the session cookie alone. */
  readonly challenges?: RegExp
  /** What the headers have to hold. */
  readonly has?: RegExp
  /** What neither the headers nor the body of the answer may hold. */
  readonly lacks?: RegExp
}

export const admin = { host: 'admin.example.com' }

const manyCookies = (count: number, length: number) =>
  Array.from({ length: count }, (_, i) => `many${i}=${'x'.repeat(length)}`).join('; ')

/** What a browser sends for the script of a service worker, and before somebody has clicked. */
const serviceWorker = {
  accept: '*/*',
  'sec-fetch-mode': 'same-origin',
  'sec-fetch-dest': 'serviceworker',
  'service-worker': 'script',
}
const prefetch = { ...navigation, 'sec-purpose': 'prefetch' }
const prerender = { ...navigation, 'sec-purpose': 'prefetch;prerender' }

export const CASES: Readonly<Record<string, Case>> = {
  'anonymous navigation: to the sign-in page, and back': {
    path: '/a/b?c=d&e',
    headers: navigation,
    status: 302,
    location: signInFor('https://app.example.com/a/b?c=d&e'),
  },
  'anonymous navigation of an old browser': {
    headers: { accept: 'text/html' },
    status: 302,
    location: signIn,
  },
  'anonymous HEAD': { method: 'HEAD', headers: navigation, status: 302, location: signIn },
  'anonymous form': {
    method: 'POST',
    headers: navigation,
    body: 'a=b',
    status: 403,
    holds: 'Nothing was sent yet',
  },
  'anonymous XHR: 401 with the URL of the sign-in page': {
    headers: program,
    status: 401,
    holds: `"loginUrl":"${SIGN_IN}"`,
  },
  'anonymous XHR by its X-Requested-With': {
    headers: { accept: 'text/html', 'x-requested-with': 'XMLHttpRequest' },
    status: 401,
    holds: 'FWA_NO_SESSION',
  },
  'anonymous POST of a program': {
    method: 'POST',
    headers: program,
    body: '{}',
    status: 401,
    holds: 'FWA_NO_SESSION',
  },
  'anonymous WebSocket': { headers: webSocket, status: 401, holds: 'FWA_NO_SESSION' },
  'anonymous script of a service worker': {
    path: '/sw.js',
    headers: serviceWorker,
    status: 401,
    holds: 'FWA_NO_SESSION',
  },
  'anonymous prefetch: nobody is sent to sign in before a click': {
    headers: prefetch,
    status: 401,
    holds: 'FWA_NO_SESSION',
    has: /^cache-control: no-store$/m,
  },
  'anonymous prerender': {
    headers: prerender,
    status: 401,
    holds: 'FWA_NO_SESSION',
    has: /^cache-control: no-store$/m,
  },
  'anonymous client that asks for a check itself': {
    host: 'auth.example.com',
    path: '/portals/main',
    headers: { ...navigation, ...FORGED_REQUEST, 'X-Forwarded-Host': 'app.example.com' },
    // Some remove the URI of the client: somebody opens the URL by hand.
    status: 403,
    situation: 'a check that a client makes itself',
  },

  'signed in': { who: 'ada', path: '/a?b', headers: navigation, status: 200, user: 'ada' },
  'signed in, HEAD': { who: 'ada', method: 'HEAD', status: 200 },
  'signed in, POST: the body arrives': {
    who: 'ada',
    method: 'POST',
    body: 'hello',
    status: 200,
    holds: '"body":"hello"',
    user: 'ada',
  },
  'signed in, PUT of unknown length': {
    who: 'ada',
    method: 'PUT',
    headers: { 'transfer-encoding': 'chunked' },
    body: 'hello',
    status: 200,
    holds: '"body":"hello"',
    user: 'ada',
  },
  'signed in, script of a service worker': {
    who: 'ada',
    path: '/sw.js',
    headers: serviceWorker,
    status: 200,
    user: 'ada',
  },
  'signed in, prefetch': { who: 'ada', headers: prefetch, status: 200, user: 'ada' },
  'signed in, WebSocket': { who: 'ada', headers: webSocket, status: 101, user: 'ada' },
  'signed in, WebSocket of Firefox': {
    who: 'ada',
    headers: { ...webSocket, connection: 'keep-alive, Upgrade' },
    status: 101,
    user: 'ada',
  },
  'signed in, with trailers to come': {
    who: 'ada',
    headers: { connection: 'TE, close', te: 'trailers' },
    status: 200,
    user: 'ada',
  },
  'signed in, with claims of 8 kB': { who: 'large', status: 200, user: 'ada' },
  'signed in, with cookies of 12 kB': {
    who: 'ada',
    cookies: manyCookies(3, 4_000),
    status: 200,
    user: 'ada',
  },
  'signed in, with 180 cookies': {
    who: 'ada',
    cookies: manyCookies(180, 20),
    status: 200,
    user: 'ada',
  },
  'signed in at the sign-in pages alone: to them, and back': {
    who: 'ada',
    at: 'auth.example.com',
    headers: navigation,
    status: 302,
    location: signIn,
  },
  'signed in, and meets the condition': { ...admin, who: 'admin', status: 200, user: 'grace' },
  'forbidden by the condition: a page that offers another account': {
    ...admin,
    who: 'ada',
    headers: navigation,
    status: 403,
    holds: 'Sign in as someone else',
  },
  'forbidden by the condition: a program is told': {
    ...admin,
    who: 'ada',
    headers: program,
    status: 403,
    holds: 'FWA_FORBIDDEN',
  },
  'forbidden by the condition: a WebSocket': {
    ...admin,
    who: 'ada',
    headers: webSocket,
    status: 403,
    holds: 'FWA_FORBIDDEN',
  },
  'preflight, where they may not pass': { method: 'OPTIONS', headers: preflight, status: 401 },

  'a host that the configuration does not name': {
    who: 'ada',
    at: 'other.example.com',
    headers: { Host: 'other.example.com' },
    status: 403,
    situation: 'a host that is not configured',
  },
  'a condition of the client in the query is the business of the app': {
    who: 'ada',
    path: '/?if=true&policy=any',
    status: 200,
    holds: '"url":"/?if=true&policy=any"',
    user: 'ada',
  },
}

/** Where a rule opens `/public`. */
export const OPEN_CASES: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    Object.entries({ navigation, program, webSocket, serviceWorker, prefetch }).map(
      ([name, headers]): [string, Case] => [
        `an open path, anonymous: ${name}`,
        { path: '/public/a', headers, status: 'upgrade' in headers ? 101 : 200, user: '' },
      ],
    ),
  ),
  'an open path, anonymous: POST': {
    method: 'POST',
    path: '/public/a',
    headers: navigation,
    body: 'a=b',
    status: 200,
    holds: '"body":"a=b"',
    user: '',
  },
  'an open path, anonymous: HEAD': { method: 'HEAD', path: '/public/a', status: 200 },
  'an open path, signed in': { who: 'ada', path: '/public/a', status: 200, user: 'ada' },
  'beside an open path, anonymous': {
    path: '/publicity',
    headers: navigation,
    status: 302,
    location: signInFor('https://app.example.com/publicity'),
  },
  'an open path, as part of a query': {
    path: '/?/public/a',
    headers: navigation,
    status: 302,
    location: signInFor('https://app.example.com/?/public/a'),
  },
}

/** Where a proxy listens without TLS. */
export const PLAIN_CASES: Readonly<Record<string, Case>> = {
  'anonymous, a page: it says why, and sends nobody in circles': {
    headers: navigation,
    status: 403,
    holds: 'FWA_APP_INSECURE',
    lacks: /^(location|set-cookie):/m,
  },
  'anonymous, a program': { headers: program, status: 401, holds: 'FWA_NO_SESSION' },
}

/** Where preflights may pass. */
export const PREFLIGHT_CASES: Readonly<Record<string, Case>> = {
  'preflight, where they may pass': {
    method: 'OPTIONS',
    headers: preflight,
    status: 200,
    user: '',
  },
  'preflight with a forged identity': {
    method: 'OPTIONS',
    headers: { ...preflight, 'X-Forwarded-User': 'eve', 'X-Gatehouse-Assertion': 'eve' },
    status: 200,
    user: '',
  },
  ...Object.fromEntries(
    ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X.HTTP~Method.Override'].map(
      (name) => [
        `preflight that ${name} makes a DELETE`,
        /[.~]/.test(name)
          ? {
              method: 'OPTIONS',
              headers: { ...preflight, [name]: 'DELETE' },
              status: 401,
              user: '',
              isSpelledOtherwise: true,
            }
          : { method: 'OPTIONS', headers: { ...preflight, [name]: 'DELETE' }, status: 401 },
      ],
    ),
  ),
  'preflight with credentials': {
    method: 'OPTIONS',
    headers: { ...preflight, authorization: 'Basic YTpi' },
    status: 401,
  },
  'a GET that calls itself a preflight': {
    headers: { ...preflight, ...FORGED_REQUEST, ...program },
    status: 401,
  },
}

export const API_KEY = 'key-of-the-ci-job-0123456789abcdef'

/** With an API key for app.example.com. */
export const PROGRAM_CASES: Readonly<Record<string, Case>> = {
  'a key where it may pass': {
    headers: { ...program, authorization: `APIKey ${API_KEY}` },
    status: 200,
    user: 'psk:ci',
  },
  'a key with forged headers': {
    headers: {
      authorization: `APIKey ${API_KEY}`,
      'X-Forwarded-User': 'eve',
      'X-Gatehouse-Assertion': 'eve',
    },
    status: 200,
    user: 'psk:ci',
  },
  'a key where it may not pass': {
    ...admin,
    headers: { ...program, authorization: `APIKey ${API_KEY}` },
    status: 403,
    holds: 'FWA_FORBIDDEN',
  },
  'a key that nobody has': {
    headers: { ...program, authorization: `APIKey ${API_KEY}x` },
    status: 401,
    challenges: /^APIKey realm="api"$/,
  },
  'a key that nobody has, in a browser: no redirect': {
    headers: { ...navigation, authorization: `APIKey ${API_KEY}x` },
    status: 401,
    challenges: /^APIKey realm="api"$/,
  },
  'a session beside credentials of the app': {
    who: 'ada',
    headers: { authorization: 'Basic YTpi' },
    status: 200,
    user: 'ada',
  },
  'nobody: a program is told of the keys': {
    headers: program,
    status: 401,
    challenges: /APIKey realm="api"/,
  },
}

const upgradeTo = (upgrade: string | readonly string[]) => ({
  ...webSocket,
  connection: 'Upgrade, HTTP2-Settings',
  'http2-settings': 'AAMAAABkAARAAAAAAAIAAAAA',
  upgrade,
})

/** Requests for another protocol, which no check sees once it has begun. */
export const UPGRADES = {
  'to HTTP/2': upgradeTo('h2c'),
  'to HTTP/2, in capitals': upgradeTo('H2C'),
  'to HTTP/2, or else a WebSocket': upgradeTo('h2c, websocket'),
  'to a WebSocket, or else HTTP/2': upgradeTo('websocket, h2c'),
  'to HTTP/2, and to a WebSocket on a line of its own': upgradeTo(['h2c', 'websocket']),
  'to a WebSocket, and to HTTP/2 on a line of its own': upgradeTo(['websocket', 'h2c']),
  'to what begins like a WebSocket': upgradeTo('websocket/h2c'),
  'to a part of it': upgradeTo('web'),
  'to anything else': upgradeTo('TLS/1.0'),
} as const

/** Targets of requests, sent as they are. */
export const TARGETS = {
  /** That proxies and apps may read in different ways. */
  ambiguous: [
    '/a%2fb',
    '/a%2f..%2fb',
    '/a/../b',
    '/a/%2e%2e/b',
    '/a/..;/b',
    '/a/./b',
    '/a//b',
    '//evil.example/b',
    '/\\evil.example/b',
    '/a\\b',
    '/a%5cb',
    '/a/..%5cb',
    '/a;b=c',
    '/a%3bb',
    '/a%252fb',
    '/a%252e%252e/b',
    '/a#b',
    '/a%23b',
    '/a?b=#c',
    '/a%3fb',
    '/a/b/',
    '/A/B',
    'https://app.example.com/b',
    'https://evil.example/b',
  ],
  /** That are no paths, or no text when they are decoded. */
  malformed: [
    '/ordinary',
    '/%00',
    '/%zz',
    '/a%',
    '/%c0%ae%c0%ae/b',
    '/%ff',
    '/%e4',
    '/ä',
    '/a b',
    '/a\tb',
    '/a%0d%0aX-Forwarded-User:%20eve',
    '*',
    'b',
    '',
  ],
} as const

const APP_COOKIE = '__Host-gatehouse-app.main'
/** U+00A0 and U+FEFF, in UTF-8 as browsers send them. */
const [NO_BREAK_SPACE, BYTE_ORDER_MARK] = ['\u00a0', '\ufeff'].map((space) =>
  Buffer.from(space).toString('latin1'),
)

/** Names of cookies that another host of the domain can set, and that look like that of an app. */
export const LOOK_ALIKES: readonly string[] = [
  `${NO_BREAK_SPACE}${APP_COOKIE}`,
  `${APP_COOKIE}${NO_BREAK_SPACE}`,
  `${BYTE_ORDER_MARK}${APP_COOKIE}`,
  `${APP_COOKIE}${BYTE_ORDER_MARK}`,
  APP_COOKIE.toLowerCase(),
  APP_COOKIE.toUpperCase(),
  APP_COOKIE.replace('__Host', '__Secure'),
  APP_COOKIE.replace('.', '%2E'),
  `"${APP_COOKIE}"`,
  `x${APP_COOKIE}`,
  `${APP_COOKIE}x`,
  `${APP_COOKIE}.main`,
  `${'_'.repeat(4_000)}${APP_COOKIE}`,
  '__Host-gatehouse.main',
  '__Secure-gatehouse.main',
  // A cookie without a name is sent as its value alone.
  `=${APP_COOKIE}`,
]

/** Cookies of other portals, and others, that may stand on both sides of that of the session. */
export const MANY_PLANTED: readonly string[] = Array.from({ length: 12 }, (_, i) => [
  `__Host-gatehouse-app.z${i}=1`,
  `x${i}=1`,
]).flat()
