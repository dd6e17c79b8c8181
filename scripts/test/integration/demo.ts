import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { type Ask, createClient } from '../../../services/forward-auth/test/helpers/client.ts'
import { freePort } from '../../../services/forward-auth/test/helpers/process.ts'
import { launchChromium } from '../../../services/forward-auth/test/integration/chromium.ts'
import { readProjectFile } from '../compose-files.ts'
import type { ComposeOptions, Docker } from './docker.ts'

export const PROJECT = 'gatehouse-test'
export const NETWORK = '172.30.75'
const PATIENCE = 300_000
const NETWORK_CHANGED = 'ERR_NETWORK_CHANGED'

export const port: number = await freePort()
export const [app, admin, auth, certs] = ['app', 'admin', 'auth', 'certs'].map(
  (name) => `${name}.gatehouse.localhost:${port}`,
) as [string, string, string, string]

const imageOf = (file: string, service: string): string =>
  parse(readProjectFile(file), { merge: true }).services[service].image

/** What a person writes to .env; an address of loopback where nothing else listens. */
export const HOMELAB = {
  DOMAIN: 'lab.home.arpa',
  GATEHOUSE_ADDRESS: '127.0.0.77',
  POCKET_ID_CLIENT_ID: 'gatehouse',
  POCKET_ID_CLIENT_SECRET: 'the-secret-of-the-client',
} as const

/** The folder of the configurations behind a Traefik that is there already. */
export const BEHIND_TRAEFIK: string = join(tmpdir(), `gh-behind-traefik-${process.pid}`)

/** The engine that every test of a compose file shares. */
export const COMPOSE: ComposeOptions = {
  project: PROJECT,
  env: {
    GATEHOUSE_HTTPS_PORT: String(port),
    GATEHOUSE_NETWORK: NETWORK,
    BEHIND_TRAEFIK,
    ...HOMELAB,
  },
  images: {
    traefik: imageOf('docker-compose.yml', 'proxy'),
    caddy: imageOf('compose.caddy.yml', 'proxy'),
    postgres: imageOf('compose.replicas.yml', 'database'),
  },
}

/** What a client writes that wants to be taken for the proxy, and for Alice. */
export const FORGED = {
  'x-forwarded-for': `${NETWORK}.2`,
  'x-forwarded-host': auth,
  'x-forwarded-method': 'OPTIONS',
  'x-forwarded-proto': 'https',
  'x-forwarded-uri': '/',
  'x-forwarded-user': 'alice',
  'remote-user': 'alice',
  'remote-groups': 'admin',
}

/** Starts a demo that goes with the test. */
export async function startDemo(
  t: Test,
  { compose: composeWith }: Docker,
  files: readonly string[],
  forwardAuth = 'forward-auth',
) {
  const compose = (...args: string[]) => composeWith(files, ...args)
  t.teardown(() => compose('down', '--volumes', '--timeout', '10'))
  await compose('up', '--detach')
  const root = await compose('exec', '-T', forwardAuth, 'cat', '/var/lib/gatehouse/trust/root.pem')
  // Trusts nothing but this root, so that each answer is one over TLS that is chained to it.
  const ask = createClient(port, root)
  await waitUntilReady(ask, [])
  const browser = await launchChromium(t)
  const openContext = async () => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    context.setDefaultTimeout(20_000)
    return context
  }
  return { compose, root, ask, openContext }
}

/** Alice may open both apps, and Bob one; whatever they forge, each is who they are. */
export async function holdSignIns(
  t: Test,
  ask: ReturnType<typeof createClient>,
  alice: Context,
  bob: Context,
): Promise<void> {
  await t.test('who signs in at one app is known at the other', async (t) => {
    const tab = await alice.newPage()
    await signIn(tab, 'Alice')
    t.match(await identityIn(tab), /x-forwarded-useralice(x-|$)/)
    await visit(tab, `https://${admin}/`)
    t.equal(tab.url(), `https://${admin}/`)
    t.match(await identityIn(tab), /x-forwarded-useralice(x-|$)/)
  })

  await t.test('whom the policy refuses stays out', async (t) => {
    const tab = await bob.newPage()
    await signIn(tab, 'Bob')
    t.equal((await visit(tab, `https://${admin}/`))?.status(), 403)
  })

  await t.test('forged headers through the proxy', async (t) => {
    const anonymous = await ask({
      host: app,
      path: '/a',
      headers: { ...FORGED, accept: 'text/html' },
    })
    const rd = new URLSearchParams({ rd: `https://${app}/a` })
    t.match(anonymous, {
      status: 302,
      headers: { location: `https://${auth}/portals/main/signin?${rd}` },
    })
    const as = async (host: string) => ({ ...FORGED, cookie: await cookiesOf(bob, host) })
    t.equal((await ask({ host: admin, headers: await as(admin) })).status, 403)
    const { status, body } = await ask({ host: app, headers: await as(app) })
    t.match({ status, body }, { status: 200, body: /<dt>x-forwarded-user<\/dt><dd>bob<\/dd>/ })
    t.notMatch(body, /<dd>alice<\/dd>/)
  })
}

export type Context = Awaited<ReturnType<Awaited<ReturnType<typeof launchChromium>>['newContext']>>
type Page = Awaited<ReturnType<Context['newPage']>>
type Request = Awaited<ReturnType<Page['waitForRequest']>>
export type AskGatehouse = (question: Ask) => Promise<{ status: number; body: string }>

/** Until forward-auth is ready with exactly these troubles. */
export async function waitUntilReady(
  ask: AskGatehouse,
  degraded: readonly string[],
): Promise<void> {
  let said = ''
  for (const start = Date.now(); Date.now() - start < PATIENCE; await setTimeout(250)) {
    const { status, body } = await ask({ host: auth, path: '/readyz' }).catch(
      ({ message }: Error) => ({ status: 0, body: message }),
    )
    said = body
    if (status !== 200) continue
    if (JSON.stringify(JSON.parse(body).degraded) === JSON.stringify(degraded)) return
  }
  throw new Error(`not ready with ${JSON.stringify(degraded)}: ${said}`)
}

export async function visit(tab: Page, url: string): Promise<Awaited<ReturnType<Page['goto']>>> {
  return despiteNetworkChanges(tab, () => tab.goto(url))
}

export async function signIn(tab: Page, name: string, url = `https://${app}/`): Promise<void> {
  await despiteNetworkChanges(tab, async () => {
    await tab.goto(url)
    // The try before may have come as far as the provider's session.
    if (tab.url() === url) return
    await tab.getByRole('button', { name }).click()
    await tab.waitForURL(url).catch(async (error) => {
      // Not by a locator, which would wait for a body that a page cut off in its first bytes never has.
      const page = await tab.content().catch(({ message }: Error) => message)
      throw new Error(`${name} is at ${tab.url()}, which says:\n${page}`, { cause: error })
    })
  })
}

/**
 * Chromium gives up every request that is under way when an interface of a container comes or goes,
 * and tries again only for a person. The error names it while no answer has begun; after that the
 * page just never finishes loading, and only the failed request tells why.
 */
async function despiteNetworkChanges<T>(tab: Page, act: () => Promise<T>): Promise<T> {
  for (const start = Date.now(); ; await setTimeout(250)) {
    let isCutOff = false
    const onFailure = (request: Request) => {
      isCutOff ||= request.failure()?.errorText === `net::${NETWORK_CHANGED}`
    }
    tab.on('requestfailed', onFailure)
    try {
      return await act()
    } catch (error) {
      const isNetworkChange = isCutOff || inspect(error).includes(NETWORK_CHANGED)
      if (!isNetworkChange || Date.now() - start > PATIENCE) throw error
    } finally {
      tab.off('requestfailed', onFailure)
    }
  }
}

export async function identityIn(tab: Page): Promise<string> {
  return (await tab.locator('dl.identity').textContent()) ?? ''
}

export async function cookiesOf(context: Context, host: string): Promise<string> {
  const cookies = await context.cookies(`https://${host}`)
  return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
}
