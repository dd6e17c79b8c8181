import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import axe from 'axe-core'
import type { BrowserContextOptions, Page as Tab } from 'playwright-core'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import { pngOf, SVG } from '../pages/pictures.ts'
import { AUTH, MAIN } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'
import { launchChromium } from './chromium.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'login could not be started')

const TRAEFIK = SHAPES[0]!
const APP = 'https://app.example.com'
const STRANGER = 'https://stranger.test'
const browser = await launchChromium(t)

/** An SVG that tells the host it is at when a script of it runs. */
const SCRIPTED = SVG.replace(
  ' viewBox',
  ' onload="new Image().src=\'/ran?onload\'" viewBox',
).replace(
  '</svg>',
  `<script>new Image().src = '/ran?script'; fetch('/ran?fetch')</script><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x:" onerror="new Image().src='/ran?img'"/></foreignObject></svg>`,
)

/** Opens pages of a portal with this logo, at its own host and at that of an app that refuses everybody. */
async function open(t: Test, logo: string | Buffer, options: BrowserContextOptions = {}) {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'logo'), logo)
  writeFileSync(join(folder, 'icon'), pngOf(64, 32))
  const apps = `apps: [{ name: Wiki, url: "https://wiki.example.com/", icon: "${folder}/icon" }, { name: Notes, url: "https://notes.example.com/" }]`
  const rules = 'rules: [{ hosts: [app.example.com], require: none }], policies: { none: "false" }'
  const look = `title: Example, logo: "${folder}/logo", favicon: "${folder}/icon"`
  const service = await startApp(t, yamlOf(portalOf('main', `${apps}, ${rules}, ${look}`)))
  const cookies = await bothCookies(service, {})
  const context = await browser.newContext(options)
  const [said, ran]: [string[], string[]] = [[], []]
  await context.route(/^https:/, async (route) => {
    const url = new URL(route.request().url())
    const answer = (status: number, headers: object, body: Buffer | string) =>
      route.fulfill({ status, headers: headers as Record<string, string>, body })
    if (url.pathname === '/ran') {
      ran.push(url.href)
      return answer(204, {}, '')
    }
    if (url.origin === STRANGER) return answer(200, { 'content-type': 'image/svg+xml' }, logo)
    const cookie = url.origin === APP ? cookies.app : cookies.auth
    const asked = { ...BROWSER, ...route.request().headers(), cookie, host: url.host }
    const { statusCode, headers, rawPayload } =
      url.origin === APP
        ? await service.check(TRAEFIK, { ...asked, 'X-Forwarded-Method': 'GET' })
        : await service.app.inject({ url: `${url.pathname}${url.search}`, headers: asked })
    return answer(statusCode, headers, rawPayload)
  })
  const tab = await context.newPage()
  tab.on('console', (message) => said.push(message.text()))
  t.teardown(() => context.close())
  return { tab, said, ran }
}

interface Shown {
  readonly isShown: boolean
  readonly src: string
  readonly left: number
  readonly right: number
  readonly width: number
}

/** The logo as it is shown. */
const logoOf = (tab: Tab) =>
  tab.evaluate(`(() => {
    const image = document.querySelector('header img')
    const { left, right, width, height } = image.getBoundingClientRect()
    const { objectFit } = getComputedStyle(image)
    const isShown = image.complete && image.naturalWidth > 0
    return { isShown, src: image.src, left, right, width, height, objectFit }
  })()`) as Promise<Shown>

const PAGES = {
  'provider down': `${MAIN}/signin?switch=1`,
  'signed-in': `${MAIN}/account`,
  'sign-out': `${MAIN}/logout`,
  error: `${MAIN}/providers/none`,
  refused: `${APP}/reports`,
}

const HEADINGS: Readonly<Record<keyof typeof PAGES, string>> = {
  'provider down': 'corp is not responding',
  'signed-in': 'You are signed in',
  'sign-out': 'Sign out?',
  error: 'Not found',
  refused: 'No access with this account',
}

async function violations(tab: Tab): Promise<string[]> {
  await tab.evaluate(axe.source)
  return tab.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: typeof import('axe-core') }
    const { violations } = await axe.run()
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  })
}

for (const colorScheme of ['light', 'dark'] as const)
  for (const [name, logo] of Object.entries({
    svg: SVG,
    wide: pngOf(1_200, 60),
    tall: pngOf(60, 400),
  }))
    t.test(`${colorScheme}: a page with a ${name} logo is sound at 320 pixels`, async (t) => {
      const viewport = { width: 320, height: 720 }
      const { tab, said } = await open(t, logo, { colorScheme, viewport })
      for (const [page, url] of Object.entries(PAGES)) {
        await tab.goto(url)
        await tab.getByRole('heading', { name: HEADINGS[page as keyof typeof PAGES] }).waitFor()
        const shown = await logoOf(tab)
        t.match(
          shown,
          { isShown: true, src: `${MAIN}/images/`, height: 48, objectFit: 'contain' },
          page,
        )
        t.ok(shown.left >= 0 && shown.right <= 320 && shown.width > 0, `${page}: all of it`)
        if (name === 'svg') t.equal(shown.width, 96, 'as wide as it is drawn')
        t.ok(((await tab.evaluate('document.documentElement.scrollWidth')) as number) <= 320)
        t.equal(await tab.getByRole('banner').getByRole('img', { name: 'Example' }).count(), 1)
        t.strictSame(await violations(tab), [], `${page} has nothing for axe to find`)
        const shots = process.env.GATEHOUSE_SCREENSHOTS
        if (shots) await tab.screenshot({ path: join(shots, `${colorScheme}-${name}-${page}.png`) })
      }
      t.strictSame(
        said.filter((line) => !/status of (40[034]|503)/.test(line)),
        [],
        'and the console is empty',
      )
    })

t.test('an SVG may have colours for each scheme', async (t) => {
  for (const [colorScheme, color] of [
    ['light', [66, 86, 208]],
    ['dark', [255, 255, 255]],
  ] as const) {
    const { tab } = await open(t, SVG, { colorScheme })
    await tab.goto(PAGES['provider down'])
    const shot = await tab.locator('header img').screenshot()
    await tab.goto('about:blank')
    const middle = await tab.evaluate(`(async () => {
      const image = new Image()
      image.src = 'data:image/png;base64,${shot.toString('base64')}'
      await image.decode()
      const context = new OffscreenCanvas(image.width, image.height).getContext('2d')
      context.drawImage(image, 0, 0)
      return [...context.getImageData(48, 24, 1, 1).data].slice(0, 3)
    })()`)
    t.strictSame(middle, [...color], colorScheme)
  }
})

t.test('a script in an SVG never runs', async (t) => {
  const { tab, ran } = await open(t, SCRIPTED)
  for (const url of Object.values(PAGES)) {
    await tab.goto(url, { waitUntil: 'networkidle' })
    t.match(await logoOf(tab), { isShown: true })
    t.strictSame(ran, [], `not on ${url}`)
  }
  const { src } = await logoOf(tab)
  await tab.goto(src, { waitUntil: 'networkidle' })
  t.equal(await tab.locator('svg').count(), 1, 'the file itself can be opened')
  t.strictSame(ran, [], 'and runs nothing either')
  await tab.goto(`${STRANGER}/logo.svg`, { waitUntil: 'networkidle' })
  t.strictSame(
    ran.splice(0).sort(),
    ['fetch', 'img', 'onload', 'script'].map((how) => `${STRANGER}/ran?${how}`),
    'which it would without our headers',
  )
})

t.test('a page shows images of its portal alone', async (t) => {
  const { tab, said } = await open(t, SVG)
  await tab.goto(PAGES['signed-in'])
  const shows = (src: string) =>
    tab.evaluate(`new Promise((done) => {
      const image = new Image()
      image.onload = () => done(true)
      image.onerror = () => done(false)
      image.src = '${src}'
    })`)
  t.equal(await shows((await logoOf(tab)).src), true)
  t.strictSame(said, [])
  for (const src of [`${STRANGER}/logo.svg`, `${AUTH}/favicon.ico`, `${MAIN}/signin`]) {
    t.equal(await shows(src), false, src)
    t.match(said.pop(), /violates.*img-src/, `${src}: by the policy`)
  }
})
