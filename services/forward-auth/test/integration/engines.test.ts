import { setTimeout as pause } from 'node:timers/promises'
import { createDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startServer } from '../../../../packages/identity-providers/test/stand-ins/server.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { PROXIES } from '../helpers/proxies.ts'
import { startWorkerApp } from '../helpers/worker-app.ts'
import { ENGINES, type EngineName, missingEngine, type Profile, type Tab } from './engines.ts'

/** Not below `localhost`, whose hosts are of different sites for WebKit. */
const DOMAIN = 'example.com'
const ELSEWHERE = 'example.net'
const HOUR = 3_600_000
/** Milliseconds until a page shows what it should. Long, so that a busy machine fails no test. */
const PATIENCE = 60_000

/** Each engine, and the proxy in front of it. */
const SETS: readonly (readonly [engine: EngineName, proxy: 'nginx' | 'caddy'])[] = [
  ['chromium', 'nginx'],
  ['firefox', 'caddy'],
  ['webkit', 'nginx'],
]

/** Ways of a worker that no header tells from a call, by engine. */
const LOCKED_OUT: Readonly<Record<EngineName, readonly string[]>> = {
  chromium: ['url'],
  firefox: ['url'],
  webkit: ['url', 'copied'],
}

/** The workers that ask the server for pages. */
const ASKING = [
  'pass',
  'clone',
  'again',
  'settings',
  'both',
  'first',
  'preload',
  'copied',
  'url',
] as const

// Side by side, since each of them mostly waits.
t.jobs = SETS.length

for (const [engine, proxy] of SETS)
  t.test(`${engine} behind ${proxy}`, { skip: missingEngine(engine) }, async (t) => {
    const site = await startSite(t, proxy)
    const { app, admin, elsewhere } = site.origins
    const hosts = Object.values(site.origins).map((origin) => new URL(origin).hostname)
    const openProfile = await ENGINES[engine](t, hosts)

    const story = (name: string, run: (t: Test, profile: Profile) => Promise<unknown>) =>
      t.test(name, async (t) => {
        site.provider.person = 'alice'
        await run(t, await openProfile(t))
      })

    /** A tab that stands at a page of an app, as alice. */
    async function arrive(t: Test, profile: Profile, url: string): Promise<Tab> {
      const tab = await profile.tab()
      await go(tab, url)
      await shows(t, tab, url, 'page: alice')
      return tab
    }

    story('first visit, a second app, and one at another domain', async (t, profile) => {
      const url = `${app}/a/b?c=d%2Fe&f`
      const tab = await arrive(t, profile, url)
      await arrive(t, profile, `${admin}/users?page=2`)
      await arrive(t, profile, `${elsewhere}/far`)
      await tab.reload()
      await shows(t, tab, url, 'page: alice')
    })

    story('the cookie of an app is gone, or every session has ended', async (t, profile) => {
      const url = `${app}/later?a=b#part`
      const tab = await arrive(t, profile, `${app}/`)
      await tab.forget()
      await go(tab, url)
      await shows(t, tab, url, 'page: alice')
      await site.expire()
      await go(tab, `${app}/after`)
      await shows(t, tab, `${app}/after`, 'page: alice')
    })

    story('12 tabs at once, when every session has ended', async (t, profile) => {
      await arrive(t, profile, `${app}/`)
      await site.expire()
      const urls = Array.from({ length: 12 }, (_, i) => `${app}/tab/${i}?a=b%2Fc&i=${i}`)
      const tabs = await Promise.all(urls.map(() => profile.tab()))
      const leave = (tab: Tab, url: string) => tab.read(`location.assign(${JSON.stringify(url)})`)
      await Promise.all(urls.map((url, i) => leave(tabs[i]!, url)))
      for (const [i, tab] of tabs.entries()) await shows(t, tab, urls[i]!, 'page: alice')
    })

    story('a worker that asks the server for pages, in each way', async (t, profile) => {
      const tab = await profile.tab()
      for (const name of ASKING) {
        const [url, later] = [`${app}/${name}/`, `${app}/${name}/later`]
        await go(tab, url)
        await shows(t, tab, url, 'has a worker')
        await tab.forget()
        await go(tab, later)
        const isLockedOut = LOCKED_OUT[engine].includes(name)
        await shows(t, tab, later, isLockedOut ? 'FWA_NO_SESSION' : 'page: alice')
        // Where no worker answers, everybody gets in.
        await arrive(t, profile, `${app}/out`)
      }
      await site.expire()
      for (const name of ASKING.filter((each) => !LOCKED_OUT[engine].includes(each))) {
        await go(tab, `${app}/${name}/again`)
        await shows(t, tab, `${app}/${name}/again`, 'page: alice')
        await tab.forget()
      }
    })
  })

/** Starts to open a page, which may take other ones. */
async function go(tab: Tab, url: string) {
  await tab.open(url).catch(() => {})
}

/** A tab comes to stand at a URL, or below the origin, and shows a text. */
async function shows(t: Test, tab: Tab, url: string, text: string) {
  const isThere = (seen: string) => {
    const [at = ''] = seen.split('\n')
    const isAt = at === url || (url === new URL(url).origin && at.startsWith(`${url}/`))
    return isAt && seen.includes(text)
  }
  const seen = await look(tab, isThere)
  t.ok(isThere(seen), `${text} at ${url}`, { seen })
}

/** What a tab shows as soon as that is as it should be, or in the end. */
async function look(tab: Tab, isGood: (seen: string) => boolean): Promise<string> {
  let seen = ''
  for (const end = performance.now() + PATIENCE; performance.now() < end; await pause(50)) {
    // There may be no page at the moment.
    seen = await tab.read("location.href + '\\n' + document.body.innerText").catch(String)
    if (isGood(seen)) break
  }
  return seen
}

/** Gatehouse with apps at two domains, behind a proxy. */
async function startSite(t: Test, proxy: 'nginx' | 'caddy') {
  const folder = testFolder(t)
  const port = await freePort()
  const of = (host: string) => `https://${host}:${port}`
  const authHost = `auth.${DOMAIN}`
  const origins = {
    app: of(`app.${DOMAIN}`),
    admin: of(`admin.${DOMAIN}`),
    half: of(`half.${DOMAIN}`),
    elsewhere: of(`app.${ELSEWHERE}`),
    auth: of(authHost),
  }
  const client = {
    clientId: 'gatehouse',
    clientSecret: 'the-secret-of-gatehouse',
    redirectUris: [`${origins.auth}/portals/main/providers/corp/callback`],
  }
  /** Who signs in next; without one, the provider asks. */
  const provider = { person: 'alice' as string | undefined }
  const { origin } = await startServer(t, (issuer) =>
    createDemoIdp({ issuer, clients: [client], signsIn: () => provider.person }),
  )
  const gatehouse = await startGatehouse(
    t,
    `
domains:
  - { domain: ${DOMAIN}, authHost: "${authHost}:${port}" }
  - { domain: ${ELSEWHERE}, authHost: "${authHost}:${port}" }
portals:
  - name: main
    policies: { admins: Group("admin") }
    providers:
      - { type: openIDConnect, name: corp, issuerUrl: "${origin}", clientId: ${client.clientId}, clientSecret: ${client.clientSecret}, scopes: [openid, profile, email, groups] }
    rules:
      - { paths: [/public/*], require: anyone }
      - { hosts: [half.${DOMAIN}], paths: [/api/*], require: signedIn }
      - { hosts: [half.${DOMAIN}], require: anyone }
`,
  )
  const { port: appPort } = await startWorkerApp(t)
  const hosts = Object.values(origins).map((each) => new URL(each).hostname)
  await PROXIES[proxy](t, {
    ...{ folder, port, appPort, gatehousePort: gatehouse.port },
    certificate: await issueCertificate(folder, hosts),
    changes: {
      Caddyfile: [
        [
          'app.example.com, admin.example.com {',
          `app.example.com, admin.example.com, half.example.com, app.${ELSEWHERE} {`,
        ],
        [
          '\t\tapp.example.com any',
          `\t\tapp.example.com any\n\t\thalf.example.com any\n\t\tapp.${ELSEWHERE} any`,
        ],
      ],
      // The example is for the port of HTTPS.
      'nginx.conf': [
        [
          'server_name app.example.com',
          `server_name half.example.com app.${ELSEWHERE} app.example.com`,
        ],
        [
          'app.example.com any;',
          `app.example.com any; half.example.com any; app.${ELSEWHERE} any;`,
        ],
        ['$scheme://$host$request_uri', '$scheme://$http_host$request_uri'],
        ['X-Forwarded-Host $host;', 'X-Forwarded-Host $http_host;'],
        [' Host $host;', ' Host $http_host;'],
      ],
    },
  })
  return {
    origins,
    provider,
    expire: () => gatehouse.clock.advance(8 * HOUR),
  }
}
