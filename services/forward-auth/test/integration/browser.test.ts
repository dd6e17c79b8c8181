import { startDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startOpenIdProvider } from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import { createClient } from '../helpers/client.ts'
import { type Echo, startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { PROXIES } from '../helpers/proxies.ts'
import { launchChromium } from './chromium.ts'

const HOUR = 3_600_000
const DOMAIN = 'gatehouse.localhost'

const folder = testFolder(t)
const port = await freePort()
const [app, admin, auth] = ['app', 'admin', 'auth'].map(
  (host) => `https://${host}.${DOMAIN}:${port}`,
) as [string, string, string]
const at = (portal: string, path: string) => `${auth}/portals/${portal}${path}`

// Two providers know an alice: at the first people choose who they are, the second one knows.
const client = {
  clientId: 'gatehouse',
  clientSecret: 'the-secret-of-gatehouse',
  redirectUris: [
    at('main', '/providers/corp/callback'),
    at('main', '/providers/lab/callback'),
    at('guests', '/providers/corp/callback'),
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
domains: [{ domain: ${DOMAIN}, authHost: "auth.${DOMAIN}:${port}" }]
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
const echo = await startEcho(t)
const certificate = await issueCertificate(
  folder,
  ['app', 'admin', 'auth'].map((host) => `${host}.${DOMAIN}`),
)
await PROXIES.caddy(t, {
  folder,
  certificate,
  domain: DOMAIN,
  port,
  gatehousePort: gatehouse.port,
  appPort: echo.port,
})
const browser = await launchChromium(t)
const ask = createClient(port, certificate.rootPem)

/** A test with a browser of its own, whose console must not speak of refused content and the like. */
function browserTest(name: string, run: (t: Test, context: BrowserContext) => Promise<void>) {
  return t.test(name, async (t) => {
    const context = await openContext(t)
    const said: string[] = []
    context.on('console', (message) => said.push(message.text()))
    await run(t, context)
    const isStatus = (text: string) => text.startsWith('Failed to load resource')
    t.same(
      said.filter((text) => !isStatus(text)),
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
  const { host, pathname: path } = new URL(url)
  const cookies = (await context.cookies(url)).map(({ name, value }) => `${name}=${value}`)
  return (await ask({ host, path, headers: { cookie: cookies.join('; '), ...headers } })).status
}

/** Where a tab stands, and what it shows. */
async function holdPage(t: Test, tab: Page, url: string, heading: string) {
  await tab.getByRole('heading', { name: heading }).waitFor()
  t.equal(tab.url(), url)
}

/** The chooser, on the way to a URL. */
async function holdChooser(t: Test, tab: Page, rd: string) {
  await tab.getByRole('heading', { name: 'Sign in' }).waitFor()
  const [url] = tab.url().split('&hop=')
  t.equal(url, at('main', `/signin?${new URLSearchParams({ rd })}`))
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
        name: '__Host-gatehouse-app.main',
        domain: `app.${DOMAIN}`,
        path: '/',
        httpOnly: true,
        secure: true,
        sameSite: 'Lax',
      },
    ])
    t.equal(ours.length, 1, 'the login has left no other cookie to the app')
    const admins = (await context.cookies(admin)).filter(({ name }) => name.includes('gatehouse'))
    t.strictSame(admins, [], 'nor any to another app')
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
