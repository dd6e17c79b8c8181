import fc from 'fast-check'
import t from 'tap'
import { fill, textsIn } from '../../src/pages/languages.ts'
import { CORP, DOMAINS, portalOf, SHARED_DOMAIN, startApp, yamlOf } from '../app.ts'
import { attribute, hrefsIn, named } from '../pages/read.ts'
import { AUTH, MAIN, signIn, start, whoIs } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

const texts = textsIn('en')

const TRAEFIK = SHAPES[0]!
const AT_SIGN_IN = { host: 'auth.example.com' }
const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 200

const POLICIES = `policies: { admins: 'Group("admin")', strong: { acr: [gold] }, broken: 'claims.x == "y"' }`
const APPS = `apps: [
      { name: Wiki, url: "https://wiki.example.com/" },
      { name: Admin, url: "https://admin.example.com/", policy: admins },
      { name: Secrets, url: "https://wiki.example.com/secret/x?y=z" },
      { name: Vault, url: "https://vault.example.com/", policy: strong },
      { name: Other, url: "https://app.example.org/", policy: any } ]`
const RULES = `rules: [
      { hosts: [wiki.example.com], paths: [/secret/*], require: admins },
      { hosts: [wiki.example.com, "*.dev.example.com"], require: signedIn },
      { hosts: [status.example.com], require: anyone },
      { hosts: [ops.example.com], from: [192.0.2.0/24], require: signedIn },
      { hosts: [ops.example.com, auth.example.com], require: admins } ]`
const TWO_DOMAINS =
  'domains: [{ domain: example.com, authHost: "auth.example.com:8443" }, { domain: example.org, authHost: auth.example.org }]'

const OURS = /^https:\/\/auth\.example\.com/
/** The links of the page of a signed-in person that lead to apps. */
const appsIn = (html: string) => hrefsIn(html).filter((href) => !OURS.test(href))

async function pageOf(yaml: string, claims: object, remoteAddress = '192.0.2.1') {
  const { app, signIn } = await startApp(t, yaml)
  const cookie = await signIn('main', claims, AT_SIGN_IN)
  const { body } = await app.inject({
    url: '/portals/main/account',
    headers: { ...BROWSER, host: 'auth.example.com', cookie },
    remoteAddress,
  })
  return body
}

t.test('the page of a signed-in person lists the apps that they may open', async (t) => {
  const yaml = yamlOf(portalOf('main', `${POLICIES}, ${APPS}, ${RULES}`)).replace(
    /^domains: .*$/m,
    TWO_DOMAINS.replace(':8443', ''),
  )
  const member = [
    'https://wiki.example.com/',
    'https://vault.example.com/',
    'https://app.example.org/',
    'https://status.example.com/',
  ]
  t.strictSame(appsIn(await pageOf(yaml, {}, '203.0.113.9')), member)
  t.strictSame(appsIn(await pageOf(yaml, { groups: ['admin'] })), [
    'https://wiki.example.com/',
    'https://admin.example.com/',
    'https://wiki.example.com/secret/x?y=z',
    'https://vault.example.com/',
    'https://app.example.org/',
    'https://status.example.com/',
    'https://ops.example.com/',
  ])
  const closed = yaml
    .replace('name: main,', 'name: main, allow: { groups: [nobody] },')
    .replace('require: anyone', 'require: signedIn')
  const page = await pageOf(closed, {})
  t.strictSame(appsIn(page), [], 'none without access to the portal')
  t.match(page, texts.signedIn.noApps, 'and says so')
  t.notMatch(page, 'Need help?', 'whom to ask is not known')
  const asked = await pageOf(closed.replace('name: main,', 'name: main, contact: "Room 17",'), {})
  t.match(asked, /Need help\? Room 17/)
})

t.test(
  'an app with an entry and rules is there once, with its name, whatever its port',
  async (t) => {
    const rules = `rules: [{ hosts: [wiki.example.com, wiki.example.com, "*.example.com", a.example.com], require: signedIn }]`
    const apps = `apps: [{ name: "Ä Wiki", url: "https://wiki.example.com:8443/start" }]`
    const page = await pageOf(yamlOf(portalOf('main', `${apps}, ${rules}`)), {})
    t.strictSame(appsIn(page), ['https://wiki.example.com:8443/start', 'https://a.example.com/'])
    t.match(page, '<bdi>Ä Wiki</bdi><small>wiki.example.com:8443</small>')
  },
)

t.test(
  'who has 200 apps finds them by a part of their names, without accents and case',
  async (t) => {
    const list = Array.from({ length: 200 }, (_, i) => [`App ${i}`, `a${i}`])
    const names = [...list, ['Überwachung', 'monitor'], ['ウィキ', 'wiki'], ['<b>"', 'odd']]
    const apps = names.map(([name, host]) => ({ name, url: `https://${host}.example.com/` }))
    const yaml = yamlOf(portalOf('main', `apps: ${JSON.stringify(apps)}`))
    const { app, signIn } = await startApp(t, yaml)
    const cookie = await signIn('main', {}, AT_SIGN_IN)
    const find = async (search?: string) => {
      const query = search === undefined ? '' : `?${new URLSearchParams({ app: search })}`
      const url = `/portals/main/account${query}`
      const { body, statusCode } = await app.inject({
        url,
        headers: { ...BROWSER, ...AT_SIGN_IN, cookie },
      })
      t.equal(statusCode, 200)
      return { body, hrefs: appsIn(body).filter((href) => href !== '?app=') }
    }
    const first = await find()
    t.equal(first.hrefs.length, 12)
    t.match(first.body, fill(texts.signedIn.allApps, { total: '203' }))
    const all = await find('')
    t.equal(all.hrefs.length, 203)
    t.notMatch(all.body, fill(texts.signedIn.allApps, { total: '203' }))
    const table: [search: string, hosts: string[]][] = [
      [
        'app 17',
        ['a17', 'a170', 'a171', 'a172', 'a173', 'a174', 'a175', 'a176', 'a177', 'a178', 'a179'],
      ],
      [' UBERWACHUNG', ['monitor']],
      ['monitor.ex', ['monitor']],
      ['ｳｨｷ', ['wiki']],
      ['<B>"', ['odd']],
      ['nothing at all', []],
    ]
    for (const [search, hosts] of table) {
      const { body, hrefs } = await find(search)
      t.strictSame(
        hrefs,
        hosts.map((host) => `https://${host}.example.com/`),
        search,
      )
      const field = named(body, 'input').find((each) => attribute(each, 'name') === 'app')
      t.equal(attribute(field!, 'value'), search)
      t.equal(body.includes(texts.signedIn.noMatch), hosts.length === 0, search)
    }
    const long = { url: `/portals/main/account?app=${'x'.repeat(301)}` }
    const headers = { ...BROWSER, ...AT_SIGN_IN, cookie }
    t.equal((await app.inject({ ...long, headers })).statusCode, 400)
  },
)

t.test('without `apps`, those are the hosts that the rules name', async (t) => {
  const yaml = yamlOf(portalOf('main', `${POLICIES}, ${RULES}`)).replace(
    /^domains: .*$/m,
    TWO_DOMAINS,
  )
  const page = async (claims: object, address: string) => {
    const { app, signIn } = await startApp(t, yaml)
    const cookie = await signIn('main', claims, AT_SIGN_IN)
    const headers = { ...BROWSER, host: 'auth.example.com:8443', cookie }
    const sent = { url: '/portals/main/account', headers, remoteAddress: address }
    return (await app.inject(sent)).body
  }
  const open = ['https://wiki.example.com:8443/', 'https://status.example.com:8443/']
  const ops = 'https://ops.example.com:8443/'
  t.strictSame(appsIn(await page({}, '203.0.113.9')), open, 'at the port of the sign-in pages')
  t.strictSame(appsIn(await page({}, '192.0.2.9')), [...open, ops], 'from where a rule lets pass')
  t.strictSame(appsIn(await page({ groups: ['admin'] }, '203.0.113.9')), [...open, ops])

  const none = await pageOf(yamlOf(portalOf('main')), {})
  t.notMatch(none, texts.signedIn.apps, 'and nothing is said of apps where none is known')
  t.notMatch(none, texts.signedIn.noApps)
})

t.test('what no check lets a person pass is not listed', async (t) => {
  const yaml = yamlOf(portalOf('main', `${POLICIES}, ${RULES}`))
  const page = await pageOf(yaml, { groups: ['admin'] })
  t.match(page, '<bdi>ops.example.com</bdi>')
  t.notMatch(page, '<bdi>auth.example.com</bdi>', 'the host of the sign-in pages has no app')

  const programs = `callers: { issuers: [{ name: ci, issuerUrl: "https://id.example.com", audience: x, hosts: [a.example.com] }] }`
  const other = yamlOf(portalOf('main', `${POLICIES}, ${APPS}, ${programs}`)).replace(
    /^domains: .*$/m,
    TWO_DOMAINS.replace(':8443', ''),
  )
  t.match(await pageOf(other, {}), '<bdi>Vault</bdi>', 'after another sign-in')
  const github = other.replace(
    CORP,
    '{ type: github, name: corp, clientId: a, clientSecret: b, allow: anyone }',
  )
  t.match(await pageOf(github, {}), '<bdi>Wiki</bdi>')
  t.notMatch(await pageOf(github, {}), '<bdi>Vault</bdi>', 'no provider has another sign-in')
})

t.test('invariant: an app is listed if and only if its check lets the person pass', async (t) => {
  const host = fc.constantFrom('a', 'b', '*')
  const rule = fc.record({
    hosts: fc.array(host, { minLength: 1, maxLength: 2 }),
    paths: fc.option(fc.constantFrom('/x', '/x/*', '/*/y'), { nil: undefined }),
    from: fc.option(fc.constantFrom('192.0.2.0/24', '198.51.100.0/24'), { nil: undefined }),
    require: fc.constantFrom('anyone', 'signedIn', 'admins', 'broken'),
  })
  const app = fc.record({
    host: fc.constantFrom('a', 'b', 'c'),
    path: fc.constantFrom('/', '/x', '/x/y', '/X', '/x%2fy', '/z?x=/x'),
    policy: fc.constantFrom(undefined, 'any', 'admins', 'broken'),
  })
  const claims = fc.record({
    groups: fc.constantFrom([], ['admin'], ['other']),
    x: fc.constantFrom('y', 'z'),
  })
  const setting = fc.record({
    rules: fc.array(rule, { maxLength: 4 }),
    apps: fc.array(app, { minLength: 1, maxLength: 5 }),
    allow: fc.constantFrom('anyone', { groups: ['admin'] }),
    claims,
  })
  // One cookie for all hosts, so that one sign-in will do.
  const yamlFor = (options: string) =>
    yamlOf(portalOf('main', options)).replace(DOMAINS, SHARED_DOMAIN)
  const test = await startApp(t, yamlFor(POLICIES))
  const seen = { listed: 0, left: 0 }
  await fc.assert(
    fc.asyncProperty(setting, async ({ rules, apps, allow, claims }) => {
      const named = apps.map(({ host, path, policy }, i) => ({
        ...{ name: `App ${i}`, url: `https://${host}.example.com${path}` },
        ...(policy && { policy }),
      }))
      const ruled = rules.map(({ hosts, paths, from, require }) => ({
        hosts: hosts.map((each) => `${each}.example.com`),
        ...(paths && { paths: [paths] }),
        ...(from && { from: [from] }),
        require,
      }))
      const options = `${POLICIES}, allow: ${JSON.stringify(allow)}, rules: ${JSON.stringify(ruled)}, apps: ${JSON.stringify(named)}`
      await test.reload(yamlFor(options))
      const cookie = await test.signIn('main', claims, AT_SIGN_IN)
      const { body } = await test.app.inject({
        url: '/portals/main/account',
        headers: { ...BROWSER, ...AT_SIGN_IN, cookie, 'x-forwarded-for': '192.0.2.1' },
      })
      for (const { name, url, policy } of named) {
        const { host, pathname, search } = new URL(url)
        const answer = await test.check(
          TRAEFIK,
          {
            cookie,
            'X-Forwarded-Method': 'GET',
            'X-Forwarded-For': '192.0.2.1',
            'X-Forwarded-Host': host,
            'X-Forwarded-Uri': `${pathname}${search}`,
          },
          { query: policy ? `?policy=${policy}` : '' },
        )
        const isListed = body.includes(`<bdi>${name}</bdi>`)
        if (isListed !== (answer.statusCode === 200))
          throw new Error(`${name} ${url}: ${answer.statusCode}`)
        seen[isListed ? 'listed' : 'left']++
      }
    }),
    { numRuns: RUNS },
  )
  t.ok(seen.listed > RUNS / 4 && seen.left > RUNS / 4, JSON.stringify(seen))
})

t.test(
  'the sign-in page leads a signed-in person to their account, with where they came from',
  async (t) => {
    const { corp, visitor } = await start(t)
    const ada = visitor()
    await signIn(ada, corp, 'ada')
    const places: [headers: Record<string, string>, query: string, location: string][] = [
      [{}, '', `${MAIN}/account`],
      [
        { referer: 'https://app.example.com/a' },
        '',
        `${MAIN}/account?from=https%3A%2F%2Fapp.example.com%2Fa`,
      ],
      [
        {},
        '?from=https://app.example.com/a',
        `${MAIN}/account?from=https%3A%2F%2Fapp.example.com%2Fa`,
      ],
      [{ referer: `${MAIN}/logout` }, '', `${MAIN}/account`],
      [{ referer: 'https://evil.test/' }, '', `${MAIN}/account`],
      [{}, '?from=https://evil.test/', `${MAIN}/account`],
    ]
    for (const [headers, query, location] of places)
      t.match(await ada.open(`${MAIN}/signin${query}`, { headers }), {
        statusCode: 303,
        headers: { location },
      })
  },
)

t.test('the page leads back to where the person came from', async (t) => {
  const yaml = yamlOf(portalOf('main', `${POLICIES}, ${APPS}, ${RULES}`)).replace(
    /^domains: .*$/m,
    TWO_DOMAINS.replace(':8443', ''),
  )
  const { corp, visitor } = await start(t, { yaml })
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  const back = (host: string) => fill(texts.signedIn.back, { host })
  const arrive = async (headers: Record<string, string>, query = '') =>
    (await ada.open(`${MAIN}/account${query}`, { headers })).body

  const app = await arrive({ referer: 'https://app.example.com/a?b=c' })
  t.match(app, back('app.example.com'))
  t.match(app, 'class="main" href="https://app.example.com/a?b=c"')
  const cases: [why: string, referer: string][] = [
    ['our own page', `${MAIN}/logout`],
    ['another domain', 'https://evil.test/'],
    ['a domain that ends so', 'https://evil-example.com/'],
    ['a script', 'javascript:alert(1)'],
    ['an app that refuses the person, by a rule', 'https://ops.example.com/'],
    ['an app that refuses the person, by a policy', 'https://admin.example.com/x'],
  ]
  for (const [why, referer] of cases) {
    t.notMatch(await arrive({ referer }), 'class="main"', why)
    const query = `?${new URLSearchParams({ from: referer })}`
    t.notMatch(await arrive({}, query), 'class="main"', `${why}, in the query`)
  }
})

t.test(
  'who comes from an app without a return URL finds the way back after signing in',
  async (t) => {
    const { corp, visitor } = await start(t)
    const ada = visitor()
    const begun = await ada.open(`${MAIN}/signin`, {
      headers: { referer: 'https://app.example.com/' },
    })
    const done = await ada.open(corp.authorize(begun.headers.location, 'ada'), {
      headers: { referer: 'https://idp.example.com/' },
    })
    t.match(done, { statusCode: 303, headers: { 'referrer-policy': 'no-referrer' } })
    const { searchParams } = new URL(done.headers.location ?? '')
    t.equal(searchParams.get('from'), 'https://app.example.com/')
    const page = await ada.open(done.headers.location ?? '')
    t.match(page, { statusCode: 200, body: fill(texts.signedIn.back, { host: 'app.example.com' }) })
    t.equal(await whoIs(ada), 'ada')
    t.ok(hrefsIn(page.body).includes(`${AUTH}/portals/main/logout`))
  },
)
