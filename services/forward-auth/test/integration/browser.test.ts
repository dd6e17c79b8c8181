import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { startDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startOpenIdProvider } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { type Certificate, issueCertificate } from '../helpers/certificates.ts'
import { type Answered, createClient } from '../helpers/client.ts'
import { type Echo, startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { PROXIES } from '../proxies/index.ts'
import { launchChromium } from './chromium.ts'

const HOUR = 3_600_000
const DOMAIN = 'gatehouse.localhost'
/** Of another registrable domain, with the same sign-in pages. */
const ELSEWHERE = 'app.elsewhere.test'
/** A host of the domain that is not behind Gatehouse, and hostile. */
const SIBLING = `evil.${DOMAIN}`
/** Staging, with a Gatehouse of its own that has the same portal. */
const STAGING = `dev.${DOMAIN}`

const folder = testFolder(t)
const port = await freePort()
const stagingPort = await freePort()
const [app, admin, auth] = ['app', 'admin', 'auth'].map(
  (host) => `https://${host}.${DOMAIN}:${port}`,
) as [string, string, string]
const elsewhere = `https://${ELSEWHERE}:${port}`
const [stagingApp, stagingAuth] = ['app', 'auth'].map(
  (host) => `https://${host}.${STAGING}:${stagingPort}`,
) as [string, string]
const at = (portal: string, path: string) => `${auth}/portals/${portal}${path}`

// Two providers know an alice: at the first people choose who they are, the second one knows.
const client = {
  clientId: 'gatehouse',
  clientSecret: 'the-secret-of-gatehouse',
  redirectUris: [
    at('main', '/providers/corp/callback'),
    at('main', '/providers/lab/callback'),
    at('guests', '/providers/corp/callback'),
    `${stagingAuth}/portals/main/providers/corp/callback`,
  ],
  postLogoutRedirectUris: [at('main', '/logout')],
}
const corp = await startDemoIdp({ clients: [client] })
t.teardown(() => corp.close())
const lab = await startOpenIdProvider(t, { clients: [client] })

const provider = (name: string, issuer: string) =>
  `{ type: openIDConnect, name: ${name}, title: ${name.toUpperCase()}, issuerUrl: "${issuer}", clientId: ${client.clientId}, clientSecret: ${client.clientSecret}, scopes: [openid, profile, email, groups] }`
const gatehouse = await startGatehouse(
  t,
  `
domains:
  - { domain: ${DOMAIN}, authHost: "auth.${DOMAIN}:${port}" }
  - { domain: elsewhere.test, authHost: "auth.${DOMAIN}:${port}" }
portals:
  - name: main
    title: Main entrance
    policies: { admins: Group("admin") }
    providers: [${provider('corp', corp.issuer)}, ${provider('lab', lab.issuer)}]
  - name: guests
    title: Side entrance
    providers: [${provider('corp', corp.issuer)}]
`,
)
const staging = await startGatehouse(
  t,
  `
domains: [{ domain: ${STAGING}, authHost: "auth.${STAGING}:${stagingPort}" }]
portals:
  - { name: main, title: Staging, policies: { admins: Group("admin") }, providers: [${provider('corp', corp.issuer)}] }
`,
)
const echo = await startEcho(t)
const certificate = await issueCertificate(folder, [
  ...['app', 'admin', 'auth'].map((host) => `${host}.${DOMAIN}`),
  ...['app', 'admin', 'auth'].map((host) => `${host}.${STAGING}`),
  ...[ELSEWHERE, SIBLING],
])
const around = { certificate, appPort: echo.port }
await PROXIES.caddy.start(t, {
  ...{ ...around, folder, port, domain: DOMAIN, gatehousePort: gatehouse.port },
  changes: {
    Caddyfile: [
      [
        'app.example.com, admin.example.com {',
        `app.example.com, admin.example.com, ${ELSEWHERE} {`,
      ],
      ['\t\tapp.example.com any', `\t\tapp.example.com any\n\t\t${ELSEWHERE} any`],
    ],
  },
})
const stagingFolder = join(folder, 'staging')
mkdirSync(stagingFolder)
await PROXIES.caddy.start(t, {
  ...{ ...around, folder: stagingFolder, port: stagingPort, domain: STAGING },
  gatehousePort: staging.port,
})
const sibling = await startSibling(t, certificate)
const browser = await launchChromium(t, `--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`)

/** A test with a browser of its own, whose console must not speak of refused content and the like. */
function browserTest(name: string, run: (t: Test, context: BrowserContext) => Promise<void>) {
  return t.test(name, async (t) => {
    const context = await openContext(t)
    const said: string[] = []
    context.on('console', (message) => said.push(message.text()))
    await run(t, context)
    const isTold = (text: string) => /^(Failed to load resource|Clear-Site-Data header)/.test(text)
    t.same(
      said.filter((text) => !isTold(text)),
      [],
      'the console',
    )
  })
}

async function openContext(t: Test): Promise<BrowserContext> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  context.setDefaultTimeout(20_000)
  t.teardown(() => context.close())
  return context
}

/** How a program is answered that has the cookies of a browser. */
async function statusOf(context: BrowserContext, url: string, headers = {}): Promise<number> {
  return (await askAs(context, url, headers)).status
}

async function askAs(context: BrowserContext, url: string, headers = {}): Promise<Answered> {
  const { host, origin, href, port } = new URL(url)
  const ask = createClient(Number(port), certificate.rootPem)
  const cookies = (await context.cookies(url)).map(({ name, value }) => `${name}=${value}`)
  const path = href.slice(origin.length)
  return ask({ host, path, headers: { cookie: cookies.join('; '), ...headers } })
}

/** Where a tab stands, and what it shows. */
async function holdPage(t: Test, tab: Page, url: string, heading: string) {
  await tab.getByRole('heading', { name: heading }).waitFor()
  t.equal(tab.url(), url)
}

/** The chooser, on the way to a URL. */
async function holdChooser(t: Test, tab: Page, rd: string) {
  await tab.getByRole('heading', { name: 'Sign in' }).waitFor()
  const [url, hop] = tab.url().split('&hop=')
  t.equal(url, at('main', `/signin?${new URLSearchParams({ rd })}`))
  t.match(hop, /^[\w.-]+$/)
}

/** The app at this very URL, which takes the person for this user. */
async function holdApp(t: Test, tab: Page, url: string, user: string) {
  await tab.waitForURL(url)
  const { cgi } = JSON.parse((await tab.locator('body').textContent()) ?? '') as Echo
  t.same(cgi.HTTP_X_FORWARDED_USER, [user], url)
}

async function signIn(tab: Page, url: string, name: 'Alice' | 'Bob') {
  await tab.goto(url)
  await tab.getByRole('link', { name: 'CORP' }).click()
  await tab.getByRole('button', { name }).click()
  await tab.waitForURL(url)
}

/** Signs out at the sign-in pages. */
async function signOut(tab: Page) {
  await tab.goto(at('main', '/logout'))
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await tab.getByRole('heading', { name: 'You are signed out' }).waitFor()
}

/** A host of the domain whose answers set the cookies, and clear what, its test says. */
async function startSibling(t: Test, { crt, key }: Certificate) {
  const answer = { headers: {} as Record<string, string | string[]> }
  const server = createServer({ cert: readFileSync(crt), key: readFileSync(key) })
  server.on('request', ({ url }, response) => {
    // Chromium asks for an icon at some time.
    if (url === '/') response.setHeaders(new Map(Object.entries(answer.headers)))
    response.end('hello')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `https://${SIBLING}:${port}/`,
    says(headers: typeof answer.headers) {
      answer.headers = headers
    },
  }
}

/** The URLs that a tab is sent to on the way to a page, and what it ends at. */
async function wayTo(tab: Page, url: string) {
  const way: string[] = []
  const note = (request: { url(): string; isNavigationRequest(): boolean }) => {
    if (request.isNavigationRequest()) way.push(request.url())
  }
  tab.on('request', note)
  await tab.goto(url)
  tab.off('request', note)
  return way
}

const hostsOf = (way: readonly string[]) => way.map((url) => new URL(url).hostname.split('.')[0])

browserTest(
  'a login: to the chooser, to the provider, and back to the page that was asked for',
  async (t, context) => {
    const tab = await context.newPage()
    await tab.goto(`${app}/a/b?c=d%2Fe&f`)
    await holdChooser(t, tab, `${app}/a/b?c=d%2Fe&f`)
    await tab.getByRole('link', { name: 'CORP' }).click()
    await tab.getByRole('button', { name: 'Alice' }).click()
    await holdApp(t, tab, `${app}/a/b?c=d%2Fe&f`, 'corp:alice')

    const ours = (await context.cookies(app)).filter(({ name }) => name.includes('gatehouse'))
    t.match(ours, [
      {
        name: `__Host-gatehouse-app.main.${new URL(app).port}`,
        domain: `app.${DOMAIN}`,
        path: '/',
        httpOnly: true,
        secure: true,
        sameSite: 'Lax',
      },
    ])
    t.equal(ours.length, 1, 'the login has left no other cookie to the app')
    await tab.goto(`${auth}/portal/main/profile`)
    t.match(await tab.locator('body').textContent(), 'ID: alice\nProvider: corp')
  },
)

browserTest('providers: the same name at another one is somebody else', async (t, context) => {
  const tab = await context.newPage()
  await tab.goto(`${app}/`)
  await tab.getByRole('link', { name: 'LAB' }).click()
  await holdApp(t, tab, `${app}/`, 'lab:alice')
})

browserTest(
  'tabs that finish out of order each get where they wanted to go',
  async (t, context) => {
    const tabs = await Promise.all(Array.from({ length: 4 }, () => context.newPage()))
    const urls = tabs.map((_, i) => `${app}/tab/${i}`)
    for (const [i, tab] of tabs.entries()) {
      await tab.goto(urls[i]!)
      await tab.getByRole('link', { name: 'CORP' }).click()
      await tab.getByRole('button', { name: 'Alice' }).waitFor()
    }
    for (const i of [2, 0, 3, 1]) {
      await tabs[i]!.getByRole('button', { name: 'Alice' }).click()
      await holdApp(t, tabs[i]!, urls[i]!, 'corp:alice')
    }
  },
)

browserTest(
  'portals: a session of one is none of another, nor does it end with it',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${app}/`, 'Bob')
    t.equal(await statusOf(context, at('guests', '/profile.json')), 401)
    await tab.goto(at('guests', '/profile'))
    await tab.waitForURL(at('guests', '/profile'))
    t.match(await tab.locator('body').textContent(), 'ID: bob', 'the provider still knows him')

    await tab.goto(at('guests', '/logout'))
    await tab.getByRole('button', { name: 'Sign out' }).click()
    await holdPage(t, tab, at('guests', '/logout'), 'You are signed out')
    t.equal(await statusOf(context, at('guests', '/profile.json')), 401)
    t.equal(await statusOf(context, at('main', '/profile.json')), 200)
  },
)

browserTest(
  'logout: here, at the provider, and for whoever has kept the cookie',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${app}/`, 'Alice')
    const kept = await context.cookies()
    const token = kept.find(({ name }) => name === '__Host-gatehouse.main')?.value
    const authorization = `Bearer ${token}`
    const verify = () => statusOf(context, `${auth}/api/portals/main/verify`, { authorization })
    t.equal(await verify(), 200)

    await tab.goto(at('main', '/logout'))
    t.equal(await statusOf(context, `${app}/`), 200, 'the page alone ends nothing')
    await tab.getByRole('button', { name: 'Sign out' }).click()
    await holdPage(t, tab, at('main', '/logout'), 'You are signed out')
    t.same(
      (await context.cookies(auth)).map(({ name }) => name),
      [],
      'no cookie is left',
    )

    await tab.getByRole('link', { name: 'Also sign out of CORP' }).click()
    await tab.getByRole('button', { name: 'Yes, sign me out' }).click()
    await holdPage(t, tab, at('main', '/logout'), 'You are signed out')
    await tab.getByRole('link', { name: 'Sign in again' }).click()
    await tab.getByRole('link', { name: 'CORP' }).click()
    await tab.getByRole('button', { name: 'Alice' }).waitFor()

    const thief = await openContext(t)
    await thief.addCookies(kept)
    const replayed = await thief.newPage()
    await replayed.goto(`${app}/`)
    await holdChooser(t, replayed, `${app}/`)
    for (const url of [`${app}/`, at('main', '/profile.json')])
      t.equal(await statusOf(thief, url), 401, url)
    t.equal(await verify(), 401, 'verify')
  },
)

browserTest(
  'account switch: whom the policy refuses can come back as somebody else',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${app}/`, 'Bob')
    const answer = await tab.goto(`${admin}/users?page=2`)
    t.equal(answer?.status(), 403)
    await holdPage(t, tab, `${admin}/users?page=2`, 'No access with this account')
    await tab.getByRole('link', { name: 'Sign in as someone else' }).click()
    await tab.getByRole('link', { name: 'CORP' }).click()
    await tab.getByRole('button', { name: 'Alice' }).click()
    await holdApp(t, tab, `${admin}/users?page=2`, 'corp:alice')
  },
)

browserTest('expiry: back to the chooser, and from there on', async (t, context) => {
  const tab = await context.newPage()
  await signIn(tab, `${app}/`, 'Alice')
  await gatehouse.clock.advance(8 * HOUR)
  await tab.goto(`${app}/later`)
  await holdChooser(t, tab, `${app}/later`)
  t.equal(await statusOf(context, `${app}/`), 401)
  await tab.getByRole('link', { name: 'CORP' }).click()
  await holdApp(t, tab, `${app}/later`, 'corp:alice')
})

browserTest(
  'a second app, and one of another registrable domain: in without a question',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${app}/`, 'Alice')
    for (const origin of [admin, elsewhere]) {
      const url = `${origin}/users?page=2&q=a%2Fb#below`
      const way = await wayTo(tab, url)
      const host = new URL(origin).hostname.split('.')[0]
      t.strictSame(hostsOf(way), [host, 'auth', host, host])
      t.equal(tab.url(), url, 'with its fragment')
      await holdApp(t, tab, url, 'corp:alice')
      const names = (await context.cookies(origin)).map(({ name, domain }) => `${name} ${domain}`)
      t.strictSame(names, [
        `__Host-gatehouse-app.main.${new URL(origin).port} ${new URL(origin).hostname}`,
      ])
    }
  },
)

browserTest('signing in at the other domain first', async (t, context) => {
  const tab = await context.newPage()
  await signIn(tab, `${elsewhere}/first?a=b`, 'Alice')
  await holdApp(t, tab, `${elsewhere}/first?a=b`, 'corp:alice')
  await tab.goto(`${app}/second`)
  await holdApp(t, tab, `${app}/second`, 'corp:alice')
  await signOut(tab)
  for (const origin of [app, elsewhere]) t.equal(await statusOf(context, `${origin}/`), 401, origin)
})

browserTest(
  'the back button leads to pages, and never to a redirect or a ticket',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${app}/one`, 'Alice')
    for (const url of [`${admin}/two`, `${elsewhere}/three`, `${app}/four`]) await tab.goto(url)
    for (const url of [`${elsewhere}/three`, `${admin}/two`, `${app}/one`]) {
      await tab.goBack()
      await holdApp(t, tab, url, 'corp:alice')
    }
    await tab.goForward()
    await holdApp(t, tab, `${admin}/two`, 'corp:alice')
  },
)

browserTest('24 tabs at once all end where they wanted to go', async (t, context) => {
  const [first, ...others] = (await Promise.all(
    Array.from({ length: 24 }, () => context.newPage()),
  )) as [Page, ...Page[]]
  await signIn(first, `${app}/`, 'Alice')
  await context.clearCookies({ domain: `app.${DOMAIN}` })
  const origins = [app, admin, elsewhere]
  const urls = others.map((_, i) => `${origins[i % 3]}/tab/${i}?a=b%2Fc&i=${i}`)
  await Promise.all(others.map((tab, i) => tab.goto(urls[i]!)))
  for (const [i, tab] of others.entries()) await holdApp(t, tab, urls[i]!, 'corp:alice')
  for (const origin of origins) {
    const cookies = await context.cookies(origin)
    const isShort = ({ expires }: { expires: number }) => expires <= Date.now() / 1_000 + 600
    const lasting = cookies.filter((cookie) => !isShort(cookie)).map(({ name }) => name)
    t.strictSame(
      lasting,
      [`__Host-gatehouse-app.main.${new URL(app).port}`],
      'what else was needed ends soon',
    )
  }
})

/** The URL with a ticket to which a browser would be sent on the way to a page. It does not go there. */
async function ticketFor(context: BrowserContext, url: string): Promise<string> {
  let next = url
  while (!next.includes('gatehouse-ticket=')) {
    const { headers } = await askAs(context, next, { accept: 'text/html' })
    const { hostname } = new URL(next)
    const set = (headers['set-cookie'] ?? []).flatMap((line) => {
      const [, name, value] = /^([^=]+)=([^;]+)/.exec(line) ?? []
      const [, domain] = /; Domain=([^;]+)/.exec(line) ?? []
      const [, path = '/'] = /; Path=([^;]+)/.exec(line) ?? []
      return name && value ? [{ name, value, path, domain: domain ? `.${domain}` : hostname }] : []
    })
    await context.addCookies(set.map((each) => ({ ...each, secure: true, httpOnly: true })))
    next = headers.location ?? ''
  }
  return next
}

browserTest(
  'login CSRF: the ticket of an attacker signs a victim in as nobody',
  async (t, context) => {
    const attacker = await openContext(t)
    const own = await attacker.newPage()
    await signIn(own, `${admin}/`, 'Alice')
    const victim = await context.newPage()
    await victim.goto(await ticketFor(attacker, `${app}/inbox`))
    await holdChooser(t, victim, `${app}/inbox`)
    t.equal(await statusOf(context, `${app}/`), 401, 'who is not signed in is not')

    await signIn(victim, `${app}/`, 'Bob')
    await context.clearCookies({ domain: `app.${DOMAIN}` })
    const ticket = await ticketFor(attacker, `${app}/inbox`)
    await victim.goto(ticket)
    await holdApp(t, victim, `${app}/inbox`, 'corp:bob')

    const way = await wayTo(own, ticket)
    t.strictSame(hostsOf(way), ['app', 'auth', 'app', 'app'], 'it is burnt, for the attacker too')
    await holdApp(t, own, `${app}/inbox`, 'corp:alice')
  },
)

browserTest(
  'a ticket from an access log is nothing to who reads it, and its person goes on',
  async (t, context) => {
    const tab = await context.newPage()
    await signIn(tab, `${admin}/`, 'Alice')
    const ticket = await ticketFor(context, `${app}/secret?a=b`)
    const reader = await openContext(t)
    const readers = await reader.newPage()
    await readers.goto(ticket)
    await holdChooser(t, readers, `${app}/secret?a=b`)
    t.equal(await statusOf(reader, `${app}/`), 401)
    await tab.goto(ticket)
    await holdApp(t, tab, `${app}/secret?a=b`, 'corp:alice')
  },
)

browserTest(
  'whatever a sibling sets or clears costs a redirect, and signs nobody in',
  async (t, context) => {
    const mallory = await openContext(t)
    const own = await mallory.newPage()
    await signIn(own, `${app}/`, 'Bob')
    const [session] = (await mallory.cookies(app)).filter(({ name }) => name.includes('-app.'))
    const token = session?.value ?? ''
    const tab = await context.newPage()
    const visitSibling = async (headers: Record<string, string | string[]>) => {
      sibling.says(headers)
      await tab.goto(sibling.url)
    }
    const planted = [
      ...['__Host-gatehouse-app.main', '__Host-gatehouse.main', '__Secure-gatehouse-app.main'],
      ...['\u00a0', '\ufeff'].flatMap((space) =>
        [`${space}__Host-gatehouse-app.main`, `__Host-gatehouse-app.main${space}`].map((name) =>
          Buffer.from(name).toString('latin1'),
        ),
      ),
    ].map((name) => `${name}=${token}; Domain=${DOMAIN}; Path=/; Secure`)
    await visitSibling({ 'set-cookie': planted })
    const kept = (await context.cookies(app)).map(({ name }) => name)
    t.ok(kept.length >= 3, `Chromium keeps ${JSON.stringify(kept)}`)
    t.notMatch(kept, ['__Host-gatehouse-app.main'], 'but none with the prefix')
    await tab.goto(`${app}/`)
    await holdChooser(t, tab, `${app}/`)
    t.equal(await statusOf(context, `${app}/`), 401)

    await signIn(tab, `${app}/`, 'Alice')
    await holdApp(t, tab, `${app}/`, 'corp:alice')
    for (const [name, headers] of Object.entries({
      'cookies that look like ours': { 'set-cookie': planted },
      '180 cookies': {
        'set-cookie': Array.from(
          { length: 180 },
          (_, i) => `many${i}=1; Domain=${DOMAIN}; Path=/; Secure`,
        ),
      },
    })) {
      await visitSibling(headers)
      await tab.goto(`${app}/after?${new URLSearchParams({ name })}`)
      await holdApp(t, tab, `${app}/after?${new URLSearchParams({ name })}`, 'corp:alice')
    }
    await visitSibling({ 'clear-site-data': '"cookies"' })
    await tab.goto(`${app}/cleared`)
    await holdChooser(t, tab, `${app}/cleared`)
    await tab.getByRole('link', { name: 'CORP' }).click()
    await holdApp(t, tab, `${app}/cleared`, 'corp:alice')
  },
)

browserTest(
  'staging below production: two of the same portal know nothing of each other',
  async (t, context) => {
    const [tab, other] = [await context.newPage(), await context.newPage()]
    await signIn(tab, `${app}/`, 'Alice')
    // The provider asks again who it is.
    await context.clearCookies({ domain: new URL(corp.issuer).hostname })
    await other.goto(`${stagingApp}/`)
    await other.getByRole('button', { name: 'Bob' }).click()
    for (const _ of ['once', 'and again']) {
      await holdApp(t, other, `${stagingApp}/`, 'bob')
      await tab.goto(`${admin}/`)
      await holdApp(t, tab, `${admin}/`, 'corp:alice')
      await tab.goto(`${app}/`)
      await holdApp(t, tab, `${app}/`, 'corp:alice')
      await other.goto(`${stagingApp}/`)
    }
    await other.goto(`${stagingAuth}/portals/main/logout`)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await other.getByRole('heading', { name: 'You are signed out' }).waitFor()
    t.equal(await statusOf(context, `${app}/`), 200, 'production goes on')
    await other.goto(`${stagingApp}/`)
    await holdApp(t, other, `${stagingApp}/`, 'bob')
    await signOut(tab)
    await other.reload()
    await holdApp(t, other, `${stagingApp}/`, 'bob')
  },
)

browserTest('signing out in one tab', async (t, context) => {
  const [tab, other] = [await context.newPage(), await context.newPage()]
  await signIn(tab, `${app}/`, 'Alice')
  await other.goto(`${admin}/report`)
  await holdApp(t, other, `${admin}/report`, 'corp:alice')
  await signOut(tab)
  const status = () => other.evaluate(`fetch('/data').then(({ status }) => status)`)
  t.equal(await status(), 401, 'a script in the other one is refused')
  await other.reload()
  await holdChooser(t, other, `${admin}/report`)
  await other.getByRole('link', { name: 'CORP' }).click()
  await holdApp(t, other, `${admin}/report`, 'corp:alice')
  t.equal(await status(), 200)
})

browserTest('the account: one browser ends the session of the other', async (t, context) => {
  const lost = await openContext(t)
  const [tab, there] = [await context.newPage(), await lost.newPage()]
  for (const one of [tab, there]) {
    await one.goto(`${stagingApp}/`)
    await one.getByRole('button', { name: 'Alice' }).click()
    await holdApp(t, one, `${stagingApp}/`, 'alice')
  }
  const account = `${stagingAuth}/portals/main/account`
  await tab.goto(account)
  const rows = tab.locator('.sessions > li')
  t.match(await rows.allInnerTexts(), [/on Linux/, /on Linux/])
  t.equal(await rows.count(), 2)
  await tab.getByRole('button', { name: 'End session' }).click()
  await rows.nth(1).waitFor({ state: 'detached' })
  t.equal(tab.url(), account)
  t.match(await rows.allInnerTexts(), [/This browser/])

  const json = `${stagingAuth}/portals/main/profile.json`
  for (const url of [`${stagingApp}/`, json]) {
    t.equal(await statusOf(lost, url), 401, url)
    t.equal(await statusOf(context, url), 200, 'the other one stays in')
  }
  await lost.clearCookies({ domain: new URL(corp.issuer).hostname })
  await there.reload()
  await there.getByRole('button', { name: 'Alice' }).waitFor()
  await tab.goto(`${stagingApp}/`)
  await holdApp(t, tab, `${stagingApp}/`, 'alice')
})
