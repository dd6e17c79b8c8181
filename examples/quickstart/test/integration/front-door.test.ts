import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFetch } from '@gatehouse/net'
import axe from 'axe-core'
import type { BrowserContext } from 'playwright-core'
import t from 'tap'
import { launchChromium } from '../../../../services/forward-auth/test/integration/chromium.ts'
import { startQuickstart } from '../../quickstart.ts'
import { readSettings } from '../../settings.ts'
import { settingsFor } from '../program.ts'
import { createVisitor } from '../visitor.ts'

const FORGED = {
  'x-forwarded-user': 'alice',
  'x-forwarded-host': 'auth.gatehouse.localhost',
  'x-forwarded-method': 'OPTIONS',
  'x-forwarded-uri': '/healthz',
  'remote-groups': 'admin',
}

const settings = readSettings(await settingsFor(join(t.testdir(), 'gatehouse')))
const [app, admin, auth] = ['app', 'admin', 'auth'].map((name) => settings.originOf(name)) as [
  string,
  string,
  string,
]
let quickstart = await startQuickstart(settings)
t.teardown(() => quickstart.close())
// Trusts nothing but the root that was made at the start.
const rootPem = await readFile(settings.rootFile, 'utf8')
const fetch = createFetch({ ca: rootPem })
t.teardown(() => fetch.close())
const browser = await launchChromium(t)

async function ask(url: string, headers: Record<string, string> = {}) {
  const status = [200, 302, 400, 401, 403]
  const { body, ...answer } = await fetch(url, { headers, status })
  return { ...answer, body: body.toString() }
}

/** Somebody with a browser that goes on past the warnings. */
async function visitor() {
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  t.teardown(() => context.close())
  const page = await context.newPage()
  return {
    context,
    page,
    /** Opens a page, signing in at the provider if that asks; gives its status and its heading. */
    async open(url: string, person?: 'Alice' | 'Bob') {
      let answer = await page.goto(url)
      if (person) {
        t.match(page.url(), `${settings.originOf('idp')}/interaction/`)
        const arrives = page.waitForResponse(`${url}/`)
        await page.click(`text=${person}`)
        answer = await arrives
      }
      return { status: answer?.status(), heading: await page.textContent('h1') }
    },
  }
}

/** The cookie of an app, whose port is part of its name. */
const COOKIE = `__Host-gatehouse-app.main.${new URL(app).port}`

/** The session of a browser at the host of an app. */
async function sessionOf(context: BrowserContext, url = app): Promise<string | undefined> {
  return (await context.cookies(url)).find(({ name }) => name === COOKIE)?.value
}

const alice = await visitor()
const bob = await visitor()
const HELLO_ALICE = { status: 200, heading: 'Hello, Alice Arden' }
const HELLO_BOB = { status: 200, heading: 'Hello, Bob Birch' }
const REFUSED = { status: 403, heading: 'No access with this account' }

t.test('signing in at one app is signing in at all', async (t) => {
  t.match(await alice.open(app, 'Alice'), HELLO_ALICE)
  t.match(await alice.open(admin), HELLO_ALICE)
  t.match(await bob.open(admin, 'Bob'), REFUSED)
  t.match(await bob.open(app), HELLO_BOB)
})

t.test('the pages of the apps are for everybody', async (t) => {
  for (const url of [app, admin])
    for (const colorScheme of ['light', 'dark'] as const) {
      await alice.page.emulateMedia({ colorScheme })
      await alice.open(url)
      await alice.page.click('summary')
      await alice.page.evaluate(axe.source)
      const violations = await alice.page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: typeof import('axe-core') }
        return (await axe.run()).violations.map(({ id }) => id)
      })
      t.same(violations, [], `${url} in ${colorScheme}`)
    }
})

t.test('an app sees who somebody is, and not their session', async (t) => {
  await alice.open(app)
  const rows = await alice.page.$$eval('dl div', (divs) =>
    divs.map((div) =>
      Array.from(div.children as Iterable<{ textContent: string }>, (cell) => cell.textContent),
    ),
  )
  t.match(Object.fromEntries(rows), {
    'x-forwarded-user': 'alice',
    'x-forwarded-displayname': 'Alice Arden',
    'x-authenticated-user': /"groups":\["admin","staff"\]/,
    'remote-user': 'alice',
    'remote-name': 'Alice Arden',
    'remote-email': 'alice@example.com',
    'remote-groups': 'admin,staff',
    'x-gatehouse-assertion': 'hidden',
    'x-forwarded-host': new URL(app).host,
    'x-forwarded-for': '127.0.0.1',
    cookie: undefined,
  })
  const names = (await alice.context.cookies(app)).map(({ name }) => name)
  t.strictSame(names, [COOKIE], 'its host has a session for itself alone')
  const cookie = `${COOKIE}=${await sessionOf(alice.context)}`
  t.match(await ask(app, { cookie }), { status: 200 })
  t.match(await ask(admin, { cookie }), { status: 401 }, 'which is nothing at another app')
})

t.test('the page of cert-service is behind the gateway, too', async (t) => {
  const certs = settings.originOf('certs')
  const api = await ask(`${certs}/api/certificates`)
  t.match([api.status, api.body], [401, /AUTH_CREDENTIALS_MISSING/], 'its API has keys of its own')
  for (const [person, buttons] of [
    [alice, 3],
    [bob, 0],
  ] as const) {
    await person.open(certs)
    await person.page.getByRole('link', { name: /^\*\.gatehouse\.localhost/ }).click()
    await person.page.getByText('In service.').first().waitFor()
    const actions = person.page.getByRole('link', { name: /^(Renew|Revoke|Delete)$/ })
    t.equal(await actions.count(), buttons)
  }
})

t.test('what is forged counts for nothing', async (t) => {
  const cookieAt = async (url: string) => `${COOKIE}=${await sessionOf(bob.context, url)}`
  const cookie = await cookieAt(app)
  const { status, headers } = await ask(app, { accept: 'text/html', ...FORGED })
  const signIn = `${auth}/portals/main/signin?rd=${encodeURIComponent(`${app}/`)}`
  t.match([status, headers.location?.split('&hop=')[0]], [302, signIn])
  const passed = await ask(app, { cookie, ...FORGED })
  t.match(passed.body, 'Hello, <bdi>Bob Birch</bdi>')
  t.notMatch(passed.body, 'alice')
  t.match(await ask(admin, { cookie: await cookieAt(admin), ...FORGED }), { status: 403 })
  t.match(await ask(`${auth}/portals/main`, FORGED), { status: 400 }, 'asking for a check itself')
})

t.test('without the provider nobody signs in, and who is in stays in', async (t) => {
  // It goes away while somebody is signing in.
  const carol = createVisitor(rootPem, ({ pathname }) =>
    pathname.endsWith('/providers/demo/callback') ? quickstart.idp.close() : undefined,
  )
  t.teardown(() => carol.fetch.close())
  const { url: form } = await carol.open(app)
  t.match(await carol.open(form, { account: 'alice' }), {
    status: 503,
    body: 'Provider cannot be reached',
  })
  t.match(await ask(`${auth}/readyz`), { status: 200, body: '"degraded":["provider"]' })
  t.match(await alice.open(admin), HELLO_ALICE)
  t.match(await bob.open(app), HELLO_BOB)
})

t.test('after a restart everybody is still signed in', async (t) => {
  const before = await sessionOf(alice.context)
  await quickstart.close()
  await t.rejects(ask(app), { code: 'NET_FETCH_FAILED' }, 'nothing listens')
  quickstart = await startQuickstart(settings)
  t.match(await alice.open(admin), HELLO_ALICE)
  t.match(await bob.open(admin), REFUSED)
  t.equal(await sessionOf(alice.context), before)
})

t.test('signing out at one app is signing out at all', async (t) => {
  const cookie = `${COOKIE}=${await sessionOf(alice.context)}`
  await alice.open(admin)
  await alice.page.click('text=Sign out')
  await alice.page.click('button')
  await alice.page.waitForSelector('text=You are signed out')
  t.match(await ask(app, { cookie }), { status: 401 })
  await alice.page.goto(app)
  t.match(alice.page.url(), settings.originOf('idp'))
  await quickstart.close()
})
