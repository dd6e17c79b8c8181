import { setTimeout } from 'node:timers/promises'
import { createDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startServer } from '../../../../packages/identity-providers/test/stand-ins/server.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import type { Echo } from '../helpers/echo.ts'
import { startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { missingProgram, PROXIES } from '../proxies/index.ts'
import { launchChromium } from './chromium.ts'

// The provider gives no refresh tokens, and its access tokens have ended after a week.
expectWarnings(t, 'sessions are not refreshed')

const HOSTS = ['app.example.com', 'auth.example.com']
const [app, auth] = HOSTS.map((host) => `https://${host}`) as [string, string]
const at = (portal: string, path: string) => `${auth}/portals/${portal}${path}`
const WEEK = 7 * 86_400_000
const TABS = [2, 3, 5, 8, 12]
/** How long the provider takes for each answer, in ms. */
const LATENCIES = {
  quick: () => 20,
  uneven: (asked: number) => [300, 20, 140, 60, 220][asked % 5] ?? 0,
} as const

for (const proxy of ['nginx', 'traefik'] as const)
  t.test(`several tabs behind ${proxy}`, { skip: missingProgram(proxy) }, async (t) => {
    const { provider, gatehouse, most, port } = await startSite(t, proxy)
    const browser = await launchChromium(t, `--host-resolver-rules=MAP *:443 127.0.0.1:${port}`)
    const appOf = (i: number) => `${app}/tab/${i}?a=b%2Fc&i=${i}`
    const longOf = (i: number) =>
      `${app}/long?${i}=${Array.from({ length: 3_400 }, (_, n) => ((n * n * (i + 7)) % 3_571).toString(36)).join('')}`.slice(
        0,
        3_400,
      )

    async function openTabs(t: Test, count: number): Promise<[BrowserContext, Page[]]> {
      const context = await browser.newContext({ ignoreHTTPSErrors: true })
      context.setDefaultTimeout(30_000)
      t.teardown(() => context.close())
      return [context, await Promise.all(Array.from({ length: count }, () => context.newPage()))]
    }

    /** Opens a URL, which may take another one. */
    const go = (tab: Page, url: string) => tab.goto(url).catch(() => undefined)

    async function holdApps(t: Test, tabs: readonly Page[], url: (i: number) => string) {
      const shown = await Promise.all(
        tabs.map(async (tab, i) => {
          await tab.waitForURL(url(i)).catch(() => undefined)
          const text = (await tab.locator('body').textContent()) ?? ''
          return tab.url() === url(i) && text.startsWith('{')
            ? (JSON.parse(text) as Echo).cgi.HTTP_X_FORWARDED_USER?.[0]
            : `${tab.url()}: ${text}`
        }),
      )
      t.strictSame(
        shown,
        tabs.map(() => 'alice'),
      )
    }

    /** Tabs of a browser that is signed in at the provider, and has no cookie of ours. */
    async function openKnownTabs(t: Test, count: number): Promise<[BrowserContext, Page[]]> {
      provider.latency = LATENCIES.quick
      await gatehouse.clock.advance(10 * 60_000)
      const [context, tabs] = await openTabs(t, count)
      await go(tabs[0]!, appOf(0))
      await holdApps(t, tabs.slice(0, 1), appOf)
      await context.clearCookies({ domain: /example\.com$/ })
      return [context, tabs]
    }

    for (const [latency, counts] of [
      ['uneven', TABS],
      ['quick', [5, 12, 24]],
    ] as const)
      for (const count of counts)
        t.test(`${count} at once, a provider that is ${latency}`, async (t) => {
          const urls = [appOf, ...(count === 12 ? [() => appOf(0), longOf] : [])]
          for (const url of urls) {
            const [context, tabs] = await openKnownTabs(t, count)
            provider.latency = LATENCIES[latency]
            await Promise.all(tabs.map((tab, i) => go(tab, url(i))))
            await holdApps(t, tabs, url)
            await context.close()
          }
        })

    t.test('24 at once of somebody who is signed in, at an app not seen before', async (t) => {
      const [context, tabs] = await openKnownTabs(t, 24)
      await go(tabs[0]!, appOf(0))
      await holdApps(t, tabs.slice(0, 1), appOf)
      await context.clearCookies({ domain: new URL(app).hostname })
      await Promise.all(tabs.map((tab, i) => go(tab, appOf(i))))
      await holdApps(t, tabs, appOf)
      await context.close()
    })

    for (const count of [5, 12])
      t.test(`${count} at once, of which the provider asks each who it is`, async (t) => {
        provider.latency = LATENCIES.uneven
        await gatehouse.clock.advance(10 * 60_000)
        const [context, tabs] = await openTabs(t, count)
        await Promise.all(tabs.map((tab, i) => go(tab, appOf(i))))
        await holdApps(t, tabs, appOf)
        await context.close()
      })

    for (const count of TABS)
      t.test(`${count} with the page of providers in between`, async (t) => {
        const [context, tabs] = await openKnownTabs(t, count)
        provider.latency = LATENCIES.uneven
        const chooser = (i: number) =>
          at('choice', `/signin?${new URLSearchParams({ rd: appOf(i) })}`)
        await Promise.all(tabs.map((tab, i) => go(tab, chooser(i))))
        await Promise.all(tabs.map((tab) => tab.getByRole('link', { name: 'CORP' }).click()))
        await Promise.all(tabs.map((tab, i) => tab.waitForURL(new RegExp(`i=${i}$`))))
        t.pass('each at its page')
        await context.close()
      })

    t.test('what another tab has finished first', async (t) => {
      provider.latency = LATENCIES.quick
      provider.asks = true
      const [context, tabs] = await openTabs(t, 8)
      await Promise.all(tabs.map((tab, i) => go(tab, appOf(i))))
      const [first, ...others] = tabs as [Page, ...Page[]]
      await first.getByRole('button', { name: 'Alice' }).click()
      await first.waitForURL(appOf(0))
      // Some have lost what they need besides.
      await Promise.all(
        others.slice(0, 4).map((tab) => tab.getByRole('button', { name: 'Alice' }).click()),
      )
      await holdApps(t, tabs.slice(0, 5), appOf)
      await context.clearCookies({ name: /gatehouse-login/ })
      await Promise.all(
        others.slice(4).map((tab) => tab.getByRole('button', { name: 'Alice' }).click()),
      )
      await holdApps(t, tabs, appOf)
      provider.asks = false
    })

    t.test('one page in several tabs, which the person finishes one by one', async (t) => {
      provider.latency = LATENCIES.quick
      provider.asks = true
      const [context, tabs] = await openTabs(t, 8)
      await Promise.all(tabs.map((tab) => go(tab, appOf(0))))
      for (const tab of tabs) {
        await tab.getByRole('button', { name: 'Alice' }).click()
        await holdApps(t, [tab], appOf)
      }
      await context.close()
      provider.asks = false
    })

    t.test('a browser that is restored after a week', async (t) => {
      provider.latency = LATENCIES.uneven
      provider.asks = true
      const [context, tabs] = await openTabs(t, 6)
      await Promise.all(tabs.map((tab, i) => go(tab, appOf(i))))
      const atProvider = tabs[1]!.url()
      const [callback] = await Promise.all([
        tabs[0]!.waitForRequest(/\/callback\?/),
        tabs[0]!.getByRole('button', { name: 'Alice' }).click(),
      ])
      await tabs[0]!.waitForURL(appOf(0))
      const left = [
        appOf(0),
        callback.url(),
        at('main', `/signin?${new URLSearchParams({ rd: appOf(2) })}`),
        at('main', `/providers/corp?${new URLSearchParams({ rd: appOf(3) })}`),
        ...[4, 5, 6, 7, 8, 9, 10].map(appOf),
      ]
      const ends = (i: number) => appOf(i === 1 ? 0 : i)
      const state = await context.storageState()
      const later = Date.now() / 1_000 + WEEK / 1_000
      const kept = state.cookies.filter(({ expires }) => expires > later)
      t.strictSame(kept, [], 'every cookie has expired')
      await context.close()
      await gatehouse.clock.advance(WEEK)
      provider.asks = false

      const [, restored] = await openTabs(t, left.length)
      await Promise.all(restored.map((tab, i) => go(tab, left[i]!)))
      await holdApps(t, restored, ends)
      t.match(atProvider, '/interaction/', 'the provider alone knows what its page was for')
    })

    t.test('cookies are few and short', async (t) => {
      t.ok(most.logins <= 24, `${most.logins} login cookies at most`)
      t.ok(most.bytes < 6_000, `${most.bytes} bytes of cookies at most`)
    })
  })

/** An app and Gatehouse behind a proxy, with a provider whose answers take their time. */
async function startSite(t: Test, proxy: 'nginx' | 'traefik') {
  const folder = testFolder(t)
  const port = await freePort()
  const client = {
    clientId: 'gatehouse',
    clientSecret: 'the-secret-of-gatehouse',
    redirectUris: ['main', 'choice'].map(
      (name) => `${auth}/portals/${name}/providers/corp/callback`,
    ),
  }
  const provider = { latency: LATENCIES.quick as (asked: number) => number, asks: false }
  let asked = 0
  const { origin } = await startServer(t, (issuer) => {
    const signsIn = () => (provider.asks ? undefined : 'alice')
    const handle = createDemoIdp({ issuer, clients: [client], signsIn })
    return async (request, response) => {
      asked += 1
      await setTimeout(provider.latency(asked))
      handle(request, response)
    }
  })

  const most = { logins: 0, bytes: 0 }
  const measure = (service: FastifyInstance) => {
    service.addHook('onRequest', async ({ headers: { cookie = '' } }) => {
      await gatehouse.clock.advance(1)
      most.logins = Math.max(most.logins, cookie.split('__Host-gatehouse-login').length - 1)
      most.bytes = Math.max(most.bytes, cookie.length)
    })
  }
  const row = (name: string) =>
    `{ type: openIDConnect, name: ${name}, title: ${name.toUpperCase()}, issuerUrl: "${origin}", clientId: ${client.clientId}, clientSecret: ${client.clientSecret}, scopes: [openid, profile, email, groups] }`
  const gatehouse = await startGatehouse(
    t,
    `
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - { name: main, policies: { admins: Group("admin") }, providers: [${row('corp')}] }
  - { name: choice, providers: [${row('corp')}, ${row('lab')}] }
`,
    measure,
  )
  const echo = await startEcho(t)
  const certificate = await issueCertificate(folder, HOSTS)
  const ports = { port, gatehousePort: gatehouse.port, appPort: echo.port }
  await PROXIES[proxy].start(t, { folder, certificate, ...ports })
  return { provider, gatehouse, most, port }
}
