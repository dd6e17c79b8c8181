import { setTimeout as pause } from 'node:timers/promises'
import { createDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { startServer } from '../../../../packages/identity-providers/test/stand-ins/server.ts'
import { until } from '../../../../scripts/test/until.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { startWorkerApp } from '../helpers/worker-app.ts'
import { PROXIES } from '../proxies/index.ts'
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
    const { app, admin, half, elsewhere, auth } = site.origins
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
      await again(tab)
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

    story('a worker that has a page in its cache', async (t, profile) => {
      for (const name of ['shell', 'every']) {
        const url = `${app}/${name}/deep?a=b`
        const tab = await arrive(t, profile, `${app}/${name}/`)
        await shows(t, tab, `${app}/${name}/`, 'has a worker')
        for (const end of [tab.forget, site.expire]) {
          await end()
          await go(tab, url)
          await shows(t, tab, url, 'api: 401')
          await press(tab, '#sign-in')
          await shows(t, tab, url, 'api: alice')
        }
      }
    })

    story('such a worker at another domain: one click', async (t, profile) => {
      const url = `${elsewhere}/shell/deep`
      const tab = await arrive(t, profile, `${elsewhere}/shell/`)
      await shows(t, tab, `${elsewhere}/shell/`, 'has a worker')
      await tab.forget()
      await go(tab, url)
      await shows(t, tab, url, 'api: 401')
      await press(tab, '#sign-in')
      await shows(t, tab, auth, `app.${ELSEWHERE}`)
      await press(tab, 'form button')
      await shows(t, tab, url, 'api: alice')
    })

    story('a page for anyone, with a link to sign in', async (t, profile) => {
      const url = `${app}/public/news?page=2`
      const tab = await profile.tab()
      for (const link of ['of the API', 'of the app']) {
        await go(tab, url)
        await shows(t, tab, url, 'api: 401')
        await shows(t, tab, url, 'page: nobody')
        if (link === 'of the API') await press(tab, '#sign-in')
        else {
          const signIn = `${auth}/portals/main/signin?${new URLSearchParams({ rd: url })}`
          await tab.read(`location.assign(${JSON.stringify(signIn)})`)
        }
        await shows(t, tab, url, 'page: alice')
        await tab.forget()
      }
    })

    story('only the API is guarded', async (t, profile) => {
      const url = `${half}/start`
      const tab = await profile.tab()
      for (const end of [tab.forget, site.expire, tab.forget]) {
        await go(tab, url)
        await shows(t, tab, url, 'api: 401')
        await press(tab, '#sign-in')
        await shows(t, tab, url, 'api: alice')
        await end()
      }
    })

    story('a form that is sent too late', async (t, profile) => {
      const url = `${app}/form`
      const send = async () => {
        await go(tab, url)
        await shows(t, tab, url, 'page: alice')
        await tab.read(`document.querySelector('input').focus()`)
        await tab.read(`document.execCommand('insertText', false, 'long words')`)
      }
      const tab = await arrive(t, profile, url)
      await send()
      await tab.forget()
      await press(tab, 'form button')
      await shows(t, tab, `${url}?sent`, 'Nothing was sent yet')
      await pause(500)
      await again(tab)
      await shows(t, tab, `${url}?sent`, 'POST text=long+words')

      await send()
      await site.expire()
      await press(tab, 'form button')
      await shows(t, tab, `${url}?sent`, 'Nothing was sent yet')
      const signIn = await tab.read(`document.querySelector('a[target]').href`)
      const other = await profile.tab()
      await go(other, signIn)
      await look(other, (seen) => seen.startsWith(app))
      await again(tab)
      await shows(t, tab, `${url}?sent`, 'POST text=long+words')

      await send()
      await site.expire()
      await press(tab, 'form button')
      await shows(t, tab, `${url}?sent`, 'Nothing was sent yet')
      await tab.read('history.back()')
      await shows(t, tab, url, 'Send')
      const typed = () => tab.read(`document.querySelector('input').value`)
      t.ok(await until(async () => (await typed()) === 'long words'), 'what was typed is there')
    })

    story('a form of another site', async (t, profile) => {
      const tab = await arrive(t, profile, `${elsewhere}/form`)
      await arrive(t, profile, `${app}/`)
      for (const [path, text] of [
        ['private', 'Nothing was sent yet'],
        ['public/hook', 'POST text=long+words'],
      ]) {
        const form = `document.querySelector('form')`
        await tab.read(`${form}.action = '${app}/${path}'`)
        await tab.read(`document.querySelector('input').value = 'long words'`)
        await press(tab, 'form button')
        await shows(t, tab, `${app}/${path}`, text!)
        await go(tab, `${elsewhere}/form`)
        await shows(t, tab, `${elsewhere}/form`, 'page: alice')
      }
    })

    story('the sign-in link of somebody else', async (t, alice) => {
      const bob = await openProfile(t)
      site.provider.person = 'bob'
      const [mallory, ada] = [await bob.tab(), await alice.tab()]
      await go(mallory, `${app}/`)
      await shows(t, mallory, `${app}/`, 'page: bob')
      site.provider.person = 'alice'
      await go(ada, `${app}/`)
      await shows(t, ada, `${app}/`, 'page: alice')

      for (const [who, whose, victim] of [
        // Mallory signs in by the link of Ada, so that Ada would work as bob.
        [mallory, ada, 'alice'],
        // Ada opens the link of Mallory, who would then come in as alice.
        [ada, mallory, 'bob'],
      ] as const) {
        await whose.forget()
        site.hold('hops')
        await go(whose, `${app}/secret`)
        await look(whose, (seen) => seen.includes('held'))
        const [link = ''] = site.hold('tickets')
        t.match(link, `${auth}/portals/main/signin?`)
        await go(who, link)
        await look(who, (seen) => seen.includes('held') || seen.startsWith(`${app}/secret\n`))
        const tickets = site.hold('nothing')
        t.strictSame(tickets, [], 'no ticket is made for the hop of another browser')
        for (const ticket of tickets) await go(whose, ticket)
        await go(whose, link)
        await shows(t, whose, `${app}/secret`, `page: ${victim}`)
        await go(who, `${app}/secret`)
        await shows(t, who, `${app}/secret`, `page: ${victim === 'bob' ? 'alice' : 'bob'}`)
      }
    })
  })

/** Starts to open a page, which may take other ones. */
async function go(tab: Tab, url: string) {
  await tab.open(url).catch(() => {})
}

async function again(tab: Tab) {
  await tab.reload().catch(() => {})
}

async function press(tab: Tab, selector: string) {
  await tab.read(`document.querySelector(${JSON.stringify(selector)}).click()`)
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
  const holding = { kind: 'nothing' as 'hops' | 'tickets' | 'nothing', urls: [] as string[] }
  const holdRedirects = (service: FastifyInstance) => {
    const kinds = { hops: /[?&]hop=/, tickets: /[?&]gatehouse-ticket=./, nothing: /^\b$/ }
    service.addHook('onSend', async (_request, reply, payload) => {
      const { location = '' } = reply.getHeaders()
      if (!kinds[holding.kind].test(String(location))) return payload
      holding.urls.push(String(location))
      reply.removeHeader('location').code(403).type('text/plain')
      return 'held'
    })
  }
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
    holdRedirects,
  )
  const { port: appPort } = await startWorkerApp(t)
  const hosts = Object.values(origins).map((each) => new URL(each).hostname)
  await PROXIES[proxy].start(t, {
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
    /** From now on redirects of this kind are kept from the browsers. Gives those that were so far. */
    hold(kind: typeof holding.kind): readonly string[] {
      const { urls } = holding
      Object.assign(holding, { kind, urls: [] })
      return urls
    },
  }
}
