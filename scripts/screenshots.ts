/**
 * `npm run screenshots`: starts the demo and takes the pictures of docs/images. It needs Chromium.
 * `npm run screenshots -- account` takes only those with this in their name.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFetch } from '@gatehouse/net'
import type { Page } from '@gatehouse/service-kit/pages'
import { type Settings, settingsFor, start } from '../examples/quickstart/test/program.ts'
import { consentPage } from '../services/forward-auth/src/pages/consent.ts'
import { signInPage } from '../services/forward-auth/src/pages/pages.ts'
import { launchChromium } from '../services/forward-auth/test/integration/chromium.ts'
import { asked, choices, portal } from '../services/forward-auth/test/pages/samples.ts'
import { overviewPage, terminalPage } from './screenshots/pages.ts'

const PORTAL = join(import.meta.dirname, '../docs/images')
/** Bytes of a picture: what is larger is taken again with less quality. */
const MAX_BYTES = 60_000
const QUALITIES = [90, 75, 60, 45, 30]
const SCHEMES = ['light', 'dark'] as const
type Scheme = (typeof SCHEMES)[number]

/** Of windows, in pixels. The pictures have twice as many. */
const WIDE = { width: 1280, height: 860 }
const CARD = { width: 960, height: 640 }
const PHONE = { width: 390, height: 720 }
type Size = typeof WIDE

const only = process.argv[2] ?? ''
/** What is closed at the end, in this order. */
const closing: (() => unknown)[] = []
const owner = { teardown: (close: () => unknown) => void closing.unshift(close) }

async function takeAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-screenshots-'))
  owner.teardown(() => rmSync(folder, { recursive: true }))
  const settings = await settingsFor(join(folder, 'demo'))
  const { printed } = await start(owner, { ...settings, FORCE_COLOR: '1' })
  await requestCertificates(settings)
  const browser = await launchChromium(owner)
  for (const scheme of SCHEMES) {
    const tabs = await openTabs(browser, scheme, settings.GATEHOUSE_HTTPS_PORT)
    await takeDemo(tabs, settings)
    await takeSamples(tabs)
    await tabs.takeOwn(
      'terminal',
      { width: 1040, height: 100 },
      terminalPage(asAtHome(printed(), settings)),
    )
    await tabs.takeOverview()
    await tabs.close()
  }
}

type Browser = Awaited<ReturnType<typeof launchChromium>>
type Tabs = Awaited<ReturnType<typeof openTabs>>

/** Windows in a scheme, one for each person. */
async function openTabs(browser: Browser, scheme: Scheme, port = '8443') {
  const taken = new Map<string, Buffer>()
  const open = async (userAgent?: string) => {
    const context = await browser.newContext({
      ...{ colorScheme: scheme, deviceScaleFactor: 2, viewport: WIDE, ignoreHTTPSErrors: true },
      ...(userAgent !== undefined && { userAgent }),
    })
    context.setDefaultTimeout(60_000)
    return context.newPage()
  }
  type Tab = Awaited<ReturnType<typeof open>>

  async function take(tab: Tab, name: string, size: Size): Promise<void> {
    await tab.setViewportSize(size)
    await tab.evaluate(showUsualPort(port))
    const image = await capture(tab)
    taken.set(name, image)
    const file = `${name}-${scheme}.webp`
    if (!file.includes(only)) return
    writeFileSync(join(PORTAL, file), image)
    process.stdout.write(`${file} ${image.length}\n`)
  }
  /** Takes a page that is not of the demo, as high as it is. */
  async function takeOwn(name: string, { width }: Size, html: string): Promise<void> {
    const tab = await open()
    await tab.setViewportSize({ width, height: 10 })
    await tab.setContent(html)
    const height = (await tab.evaluate('document.documentElement.scrollHeight')) as number
    await take(tab, name, { width, height })
    await tab.close()
  }
  return {
    ...{ open, take, takeOwn },
    takeOverview: () =>
      takeOwn('overview', { width: 1280, height: 0 }, overviewPage(Object.fromEntries(taken))),
    close: async () => {
      for (const context of browser.contexts()) await context.close()
    },
  }
}

type Tab = Awaited<ReturnType<Tabs['open']>>

/** A picture of what the tab shows, with nothing behind pages without a background. */
async function capture(tab: Tab): Promise<Buffer> {
  const session = await tab.context().newCDPSession(tab)
  const color = { r: 0, g: 0, b: 0, a: 0 }
  await session.send('Emulation.setDefaultBackgroundColorOverride', { color })
  let image = Buffer.alloc(0)
  for (const quality of QUALITIES) {
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality })
    image = Buffer.from(data, 'base64')
    if (image.length <= MAX_BYTES) break
  }
  await session.detach()
  return image
}

/** A script that replaces in the texts of a page the port that was free by the one that the demo has by default. */
const showUsualPort = (port: string): string => `{
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode())
    texts.currentNode.data = texts.currentNode.data.replaceAll(':${port}', ':8443')
}`

const PHONE_AGENT =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1'

async function takeDemo({ open, take }: Tabs, { GATEHOUSE_HTTPS_PORT: port }: Settings) {
  const at = (name: string, path = '/') => `https://${name}.gatehouse.localhost:${port}${path}`
  const signIn = async (tab: Tab, name: string, url: string) => {
    await tab.goto(at('auth', `/portals/main/signin?${new URLSearchParams({ rd: url })}`))
    await tab.getByRole('button', { name }).click()
    await tab.waitForURL(url)
  }
  const [alice, phone, bob] = [await open(), await open(PHONE_AGENT), await open()]
  await signIn(phone, 'Alice', at('app'))
  await signIn(alice, 'Alice', at('app'))
  await take(alice, 'app', CARD)
  const shows: readonly [name: string, url: string, size: Size][] = [
    ['account', at('auth', '/portals/main/account'), { width: 960, height: 1300 }],
    ['inventory', at('certs'), WIDE],
    ['inventory-phone', at('certs'), PHONE],
    ['certificate', at('certs', '/certificates/app.example.com'), WIDE],
  ]
  for (const [name, url, size] of shows) {
    await alice.goto(url)
    await take(alice, name, size)
  }
  await signIn(bob, 'Bob', at('app'))
  await bob.goto(at('admin'))
  await take(bob, 'refused', CARD)
}

/** Pages that need several providers, or an agent, which the demo does not have. */
async function takeSamples({ open, take }: Tabs): Promise<void> {
  const shown: Readonly<Record<string, string>> = {
    openid: 'Example Corp',
    google: 'Google',
    github: 'GitHub',
    'pocket-id': 'Pocket ID',
  }
  const returnTo = new URL('https://wiki.example.com/')
  const door = { portal, language: 'en', portalUrl: '' } as const
  const own = choices.flatMap((choice) => {
    const title = shown[choice.icon ?? '']
    return title === undefined ? [] : [{ ...choice, title, condition: 'well' as const }]
  })
  const signIn = signInPage({ ...door, choices: own, returnTo })
  const samples: readonly [name: string, page: Page, size: Size][] = [
    ['sign-in', signIn, CARD],
    ['sign-in-phone', signIn, PHONE],
    ['consent', consentPage(asked()), { width: 960, height: 860 }],
  ]
  const tab = await open()
  for (const [name, { html }, size] of samples) {
    await tab.setViewportSize(size)
    await tab.setContent(html)
    await take(tab, name, size)
  }
}

/** Names as a small company has them. */
const WISHES: readonly { readonly domain: string; readonly [more: string]: unknown }[] = [
  { domain: 'app.example.com', names: ['www.example.com'] },
  { domain: 'wiki.example.com' },
  { domain: 'mail.example.com', names: ['smtp.example.com', 'imap.example.com'] },
  { domain: 'grafana.example.com' },
  { domain: '*.apps.example.com' },
  { domain: 'db.internal.example.com', names: ['10.0.0.5'], keyType: 'p384' },
  { domain: 'registry.example.com', keyType: 'rsa2048' },
  { domain: 'laptop-ada.example.com', profile: 'client' },
  { domain: 'printer.office.example.com' },
  { domain: 'git.example.com' },
]

/** Has the inventory of the demo show some. */
async function requestCertificates({ GATEHOUSE_DIR: folder = '', GATEHOUSE_PORT: port }: Settings) {
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  const fetch = createFetch({ ca: read('root.pem') })
  owner.teardown(() => fetch.close())
  const request = (wish: object) =>
    fetch(`https://localhost:${port}/api/certificate`, {
      method: 'POST',
      headers: {
        authorization: `APIKey ${read('keys/api.key').trim()}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(wish),
    })
  for (const wish of WISHES) await request(wish)
}

/** What the demo printed, with the ports and the folder that it has without settings. */
function asAtHome(printed: string, settings: Settings): string {
  return printed
    .replaceAll(settings.GATEHOUSE_DIR ?? '', '/home/ada/gatehouse/.gatehouse')
    .replaceAll(`:${settings.GATEHOUSE_HTTPS_PORT}`, ':8443')
    .replaceAll(`:${settings.GATEHOUSE_PORT}`, ':7401')
}

try {
  await takeAll()
} finally {
  for (const close of closing) await close()
}
