import { admin, type Case, FORGED_REQUEST, navigation, program, signInFor } from './proxy-cases.ts'

/** An attack: how it is tried through a proxy, or the tests that hold where proxies have no part. */
export interface Attack {
  readonly cases?: Readonly<Record<string, Case>>
  /** A test of its own, for what one request does not show. */
  readonly probe?:
    | 'replay'
    | 'tossed'
    | 'tickets'
    | 'leaked'
    | 'down'
    | 'malformed'
    | 'ambiguous'
    | 'upgrades'
    | 'overrides'
    | 'forwarded'
    | 'taken'
    | 'answers'
  /** Names of tests with their files: in `test`, or from the root for those of packages. */
  readonly elsewhere?: readonly `${string}.test.ts: ${string}`[]
}

const signIn = signInFor('https://app.example.com/')

/** The sign-in page leads somebody who is signed in on to the return URL, if it is valid. */
const refused = (rd: string): Case => ({
  host: 'auth.example.com',
  who: 'ada',
  headers: navigation,
  path: `/portals/main/signin?rd=${rd}`,
  status: 303,
  location: 'https://auth.example.com/portals/main/signin',
})

const jwt = (header: object, claims: object, signature = '') =>
  [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .concat(signature)
    .join('.')
const CLAIMS = {
  iss: 'https://auth.example.com/portals/main',
  aud: 'app.example.com',
  sub: 'ada',
  sid: 'a',
  exp: 4_000_000_000,
}
const session = (token: string, headers: object = program): Case => ({
  headers: { ...headers, cookie: `__Host-gatehouse-app.main=${token}` },
  status: 401,
})

const HEALTH_CHECKS = [
  'kube-probe/1.33',
  'GoogleHC/1.0',
  'ELB-HealthChecker/2.0',
  'Consul Health Check',
]

/**
 * The attacks that have been published for sign-in gateways behind a proxy, by what they are;
 * docs/threats.md says which rule Gatehouse follows.
 */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  'a return URL that begins with /\\ or //': {
    cases: {
      'a backslash': refused('/%5Cevil.example/'),
      'two slashes': refused('//evil.example/'),
      'two slashes of a URL': refused('https:%5C%5Cevil.example/'),
      'another host': refused('https://evil.example/'),
      'for comparison, a valid one': {
        ...refused('https://app.example.com/a'),
        status: 200,
        location: '',
        holds: '<img src="https://app.example.com/a?gatehouse-ticket="',
      },
    },
  },
  'a return URL with spaces or control characters, raw or encoded': {
    cases: {
      'a tab': refused('https://app.example.com%09.evil.example/'),
      'a line break': refused('https://app.example.com/%0d%0aLocation:%20https://evil.example/'),
      'a tab, encoded twice': refused('https://app.example.com/%2509evil'),
    },
  },
  'a redirect that nobody validates': {
    elsewhere: [
      'sign-in/login.test.ts: only the modules that validate a target write a redirect',
      'sign-in/login.test.ts: validates the return URL before every redirect',
    ],
  },
  'a host that only ends like the domain': {
    cases: {
      'of a return URL': refused('https://badexample.com/'),
      'of a request': {
        headers: { ...navigation, Host: 'app.badexample.com' },
        status: 403,
        situation: 'a host that is not configured',
      },
    },
    elsewhere: ['web/return-url.test.ts: matches domains at label boundaries, not by suffix'],
  },
  'user information in a return URL': {
    cases: {
      'of a URL': refused('https://app.example.com@evil.example/'),
      'of an opaque URL': refused('x:@evil.example'),
    },
  },
  'an open return URL of the logout': {
    cases: {
      'of the page': {
        host: 'auth.example.com',
        who: 'ada',
        headers: navigation,
        path: '/portals/main/logout?rd=https://evil.example/',
        status: 200,
        lacks: /(href|action|value)="[^"]*evil/,
      },
    },
    elsewhere: [
      'account/logout.test.ts: validates the return URL of a logout like that of a login',
    ],
  },
  'a return URL that is swapped in the state of a login': {
    elsewhere: [
      'sign-in/logins.test.ts: each login has its own state, nonce and verifier, and neither URL nor cookie tells them',
      'sign-in/logins.test.ts: a login cannot be finished in another browser',
    ],
  },
  'parameters of a sign-in that are not signed, or are old': {
    elsewhere: [
      'sign-in/logins.test.ts: a login expires',
      'sign-in/login.test.ts: validates the return URL again when the login ends',
    ],
  },

  'a URI that cannot be parsed': { probe: 'malformed' },
  'a rule that matches the query': {
    cases: {
      'names a policy, anonymous': { path: '/?policy=any&if=true', headers: program, status: 401 },
      'names a policy, not an admin': {
        ...admin,
        who: 'ada',
        path: '/?policy=any&if=true',
        status: 403,
      },
      'names the host of the pages': {
        path: '/?/portals/main/signin',
        headers: program,
        status: 401,
      },
    },
  },
  'a fragment in the path, raw or encoded': {
    cases: {
      raw: {
        path: '/private#/portals/main/signin',
        headers: program,
        status: 400,
      },
      encoded: { path: '/private%23/portals/main/signin', headers: program, status: 401 },
    },
  },
  'forwarded headers of the client': {
    cases: {
      anonymous: { headers: { ...navigation, ...FORGED_REQUEST }, status: 302, location: signIn },
      'not an admin': {
        ...admin,
        who: 'ada',
        headers: { ...FORGED_REQUEST, 'X-Forwarded-Host': 'app.example.com' },
        status: 403,
      },
      'signed in': { who: 'ada', headers: FORGED_REQUEST, status: 200, user: 'ada' },
      'a condition in X-Forward-Auth-If, anonymous': {
        headers: { ...program, 'X-Forward-Auth-If': 'true' },
        // Some do not pass it on.
        status: 403,
        situation: 'a condition in a header',
      },
      'a condition in X-Forward-Auth-If, not an admin': {
        ...admin,
        who: 'ada',
        headers: { 'X-Forward-Auth-If': 'true' },
        status: 403,
      },
    },
  },
  'the User-Agent of a health check': {
    cases: Object.fromEntries(
      HEALTH_CHECKS.map((agent) => [agent, { headers: { 'User-Agent': agent }, status: 401 }]),
    ),
  },
  'encoded separators and dot segments': { probe: 'ambiguous' },
  'a tunnel past the check by Upgrade': { probe: 'upgrades' },
  'a header that replaces method or path at the app': { probe: 'overrides' },
  'another spelling of a host': {
    cases: {
      'in capitals': { ...admin, who: 'ada', headers: { Host: 'ADMIN.Example.com' }, status: 403 },
      'with a dot at the end': {
        ...admin,
        who: 'ada',
        headers: { Host: 'admin.example.com.' },
        status: 403,
        situation: 'a host with a dot at the end',
      },
      'with its port': {
        ...admin,
        who: 'ada',
        headers: { Host: 'admin.example.com:443' },
        status: 403,
      },
      'in the target': {
        who: 'ada',
        at: 'admin.example.com',
        path: 'https://admin.example.com/',
        status: 403,
        situation: 'a host in the target',
      },
    },
  },

  'Connection that takes headers away': {
    probe: 'taken',
    cases: {
      'of the check, anonymous': {
        headers: { ...navigation, Connection: 'close, X-Forwarded-Host, X-Forwarded-Uri' },
        status: 302,
        situation: 'Connection that lists headers of a check',
      },
      'of the check, not an admin': {
        ...admin,
        who: 'ada',
        headers: { Connection: 'close, X-Forwarded-Host, X-Forwarded-Uri' },
        status: 403,
        situation: 'Connection that lists headers of a check',
      },
      'of the identity': {
        who: 'ada',
        headers: { Connection: 'close, X-Forwarded-User', 'X-Forwarded-User': 'eve' },
        status: 200,
        user: 'ada',
      },
    },
  },
  'aliases of identity headers': {
    cases: {
      'with underscores': {
        who: 'ada',
        headers: { X_Forwarded_User: 'eve', X_Gatehouse_Assertion: 'eve' },
        status: 400,
        user: 'ada',
        isSpelledOtherwise: true,
      },
      'with dots': {
        who: 'ada',
        headers: { 'X.Forwarded.User': 'eve', 'X-Gatehouse.Assertion': 'eve' },
        status: 400,
        user: 'ada',
        isSpelledOtherwise: true,
      },
      'with tildes, which lighttpd reads as hyphens': {
        who: 'ada',
        headers: { 'X~Forwarded~User': 'eve', "X'Gatehouse|Assertion": 'eve' },
        status: 400,
        user: 'ada',
        isSpelledOtherwise: true,
      },
    },
  },
  'an identity header of the client where the person has no value': {
    cases: {
      'no name': {
        who: 'nameless',
        headers: { 'X-Forwarded-Displayname': 'eve' },
        status: 200,
        user: 'ada',
      },
      'twice, and in other letters': {
        who: 'ada',
        headers: {
          'X-FORWARDED-USER': 'eve',
          'x-authenticated-user': 'eve',
          'X-Gatehouse-Assertion': 'eve.eve.eve',
        },
        status: 200,
        user: 'ada',
      },
    },
  },
  'X-Forwarded-Prefix and X-Forwarded-Port of the client': {
    cases: {
      anonymous: {
        headers: { ...navigation, 'X-Forwarded-Prefix': '/evil', 'X-Forwarded-Port': '8443' },
        status: 302,
        location: signIn,
      },
    },
  },
  'headers that only a proxy may set': { probe: 'forwarded' },
  "the check's 200 at the client": { probe: 'answers' },
  'X-Forwarded-For of the client': {
    cases: {
      'signed in': {
        who: 'ada',
        headers: { 'X-Forwarded-For': '192.0.2.66' },
        status: 200,
        user: 'ada',
      },
    },
    elsewhere: [
      'packages/service-kit/test/http/trust.test.ts: the client is the first untrusted hop from the right',
    ],
  },
  'line breaks in the claims of a person': {
    cases: { 'in a name': { who: 'control', status: 200, user: 'ada' } },
    elsewhere: ['check/check.test.ts: denies an identity that cannot be sent, and logs why'],
  },

  'logins of several people that are mixed up': {
    elsewhere: ['sign-in/login.test.ts: 500 interleaved logins do not mix up people'],
  },
  'a login that somebody else began': {
    elsewhere: [
      'sign-in/login.test.ts: a callback is accepted once, and only in the browser that began the login',
      'sign-in/login.test.ts: refuses a callback that mixes state, code and provider of several logins',
    ],
  },
  'two session cookies of one name': {
    cases: {
      'both of nobody': session('a; __Host-gatehouse-app.main=b'),
    },
    elsewhere: [
      'web/cookies.test.ts: a doubled cookie is none, wherever the second one stands',
      'sign-in/loops.test.ts: a second cookie that only the app gets ends at a page',
    ],
  },
  'a cookie that another host of the domain has set': {
    probe: 'tossed',
    elsewhere: [
      'web/cookies.test.ts: a look-alike name, behind another space of Unicode, is another cookie',
      'integration/browser.test.ts: whatever a sibling sets or clears costs a redirect, and signs nobody in',
    ],
  },
  'a cookie for each request of nobody': {
    cases: {
      'of a program': { headers: program, status: 401, lacks: /^set-cookie:/m },
      'of a page: one, which names the browser': {
        headers: navigation,
        status: 302,
        location: signIn,
      },
    },
    elsewhere: [
      'session/hop.test.ts: takes the cookie that a browser has, and keeps at most 16',
      'sign-in/logins.test.ts: a browser has one login cookie however many logins begin',
    ],
  },
  'logins in several tabs': {
    elsewhere: ['sign-in/login.test.ts: each of several tabs returns to the page where it began'],
  },
  'an e-mail address with several @': {
    elsewhere: ['packages/identity-providers/test/open-id-connect.test.ts: e-mail addresses'],
  },
  'an e-mail address that is not verified': {
    elsewhere: ['packages/gate/test/headers.test.ts: sends no unverified e-mail address'],
  },
  'a restriction that cannot be evaluated': {
    cases: { 'no groups': { ...admin, who: 'nameless', headers: program, status: 403 } },
    elsewhere: ['check/check.test.ts: a restriction that cannot be evaluated denies'],
  },
  'a code or token for another client': {
    elsewhere: [
      'security/routes.test.ts: codes and tokens are for the resources of a portal alone, and nobody gets ID tokens',
    ],
  },

  'a session that outlives its logout': {
    elsewhere: [
      'account/logout.test.ts: after signing out the old cookie counts nowhere, nor after a restart',
    ],
  },
  'a broken cookie, or a gateway that is down': {
    probe: 'down',
    cases: {
      'no token': session('x'),
      'half a token': session('eyJhbGciOiJIUzI1NiJ9.e30'),
      'characters of no cookie': session('"\\"\\u0000;='),
    },
    elsewhere: ['security/faults.test.ts: nobody passes while a dependency of the check is broken'],
  },
  'the session cookie in the hands of an app': { probe: 'replay' },
  'a ticket that reaches an app': { probe: 'tickets' },
  'a ticket from an access log': {
    probe: 'leaked',
    elsewhere: [
      'session/hop.test.ts: a ticket from an access log is nothing in the browser of who reads it',
      'session/hop.test.ts: a ticket is for one host, portal and half a minute',
      'integration/browser.test.ts: login CSRF: the ticket of an attacker signs a victim in as nobody',
    ],
  },
  'a token of another kind, key or algorithm': {
    cases: {
      'no algorithm': session(jwt({ alg: 'none' }, CLAIMS)),
      'no algorithm, with the type of that of an app': session(
        jwt({ alg: 'none', typ: 'gatehouse-app+jwt' }, CLAIMS),
      ),
      'a key of the client': session(
        jwt({ alg: 'HS256', jwk: { kty: 'oct', k: 'AAAA' } }, CLAIMS, 'A'.repeat(43)),
      ),
      'a critical header': session(jwt({ alg: 'HS256', crit: ['b64'], b64: false }, CLAIMS, 'A')),
    },
    elsewhere: ['session/sessions.test.ts: accepts only session tokens as sessions'],
  },
  'a token on a page about the person': {
    cases: {
      'the profile': {
        host: 'auth.example.com',
        path: '/portals/main/profile',
        who: 'ada',
        headers: navigation,
        status: 200,
        lacks: /eyJ[\w-]+\.[\w-]+\./,
      },
    },
    elsewhere: ['account/profile.test.ts: no page and no answer about a person contains a token'],
  },

  'a lock that one client closes for everybody': {
    elsewhere: ['check/check.test.ts: many refused requests do not lock out others'],
  },
  'one person under several names': {
    elsewhere: [
      'sign-in/sign-in-rate.test.ts: a person may sign in 60 times at once, then once every 5 seconds',
    ],
  },
  'text of a client in the security policy of a page': {
    cases: {
      'of the refusal': {
        ...admin,
        who: 'ada',
        path: "/;script-src'unsafe-inline'",
        headers: navigation,
        status: 403,
        lacks: /^content-security-policy:.*unsafe-inline/m,
      },
    },
  },
  'an answer without a bound': {
    cases: {
      'of a long URL': { path: `/${'a'.repeat(7_000)}`, headers: navigation, status: 302 },
      'of a refusal': {
        ...admin,
        who: 'ada',
        path: `/${'a'.repeat(7_000)}`,
        headers: navigation,
        status: 403,
      },
    },
    elsewhere: ['check/check.test.ts: keeps every answer small'],
  },
}
