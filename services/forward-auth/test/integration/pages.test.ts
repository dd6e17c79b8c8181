import { readFileSync } from 'node:fs'
import type { Profile } from '@gatehouse/profile'
import { LANGUAGES, type Page, sendPage } from '@gatehouse/service-kit/pages'
import axe from 'axe-core'
import Fastify from 'fastify'
import type { Page as Tab } from 'playwright-core'
import t from 'tap'
import { apiPage } from '../../../../packages/service-kit/src/http/api-page.ts'
import { ada, choices, portal, samples } from '../pages/samples.ts'
import { launchChromium } from './chromium.ts'

const SCHEMES = ['light', 'dark'] as const
const WIDTHS = [320, 390, 1280]

const OPENAPI = new URL('../../../../docs/reference/forward-auth.openapi.json', import.meta.url)

const long = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'
const pages: Record<string, Page> = {
  ...samples(),
  ...translated(),
  ...prefixed('long-', samples({ portal: { ...portal, title: long }, title: long })),
  docs: apiPage(JSON.parse(readFileSync(OPENAPI, 'utf8'))),
}
const accents = ['#ffffff', '#000000', '#ffeb3b', '#777777', '#ff00ff']

/** The samples in every language but English, which has no prefix. */
function translated(): ReturnType<typeof samples> {
  const tags = LANGUAGES.filter((tag) => tag !== 'en')
  return Object.assign({}, ...tags.map((tag) => prefixed(`${tag}-`, samples({ language: tag }))))
}

function prefixed<T>(prefix: string, record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [prefix + key, value]))
}

const origins: (string | undefined)[] = []
const app = Fastify()
app.addContentTypeParser('*', (_request, _body, done) => done(null))
app.get('/:name', (request, reply) => {
  const { name } = request.params as { name: string }
  return sendPage(reply, 200, pages[name]!)
})
for (const accent of accents)
  for (const [name, page] of Object.entries(samples({ portal: { ...portal, accent } })))
    app.get(`/${accent.slice(1)}/${name}`, (_request, reply) => sendPage(reply, 200, page))
app.post('/logout', async (request, reply) => {
  origins.push(request.headers.origin)
  return sendPage(reply, 200, pages['signed-out']!)
})
/** What consent was answered with, and where the answer led. */
const decisions: string[] = []
let callback = ''
app.addContentTypeParser(
  'application/x-www-form-urlencoded',
  { parseAs: 'string' },
  (_, text, done) => done(null, text),
)
app.post('/consent', (request, reply) => {
  decisions.push(String(request.body))
  return reply.redirect(callback, 303)
})
const origin = await app.listen({ host: '127.0.0.1', port: 0 })
t.teardown(() => app.close())
const browser = await launchChromium(t)

/** A tab, and what its console said: refused styles and errors end up there. */
async function open(options: Parameters<typeof browser.newContext>[0]) {
  const context = await browser.newContext(options)
  const tab = await context.newPage()
  const said: string[] = []
  tab.on('console', (message) => said.push(message.text()))
  tab.on('pageerror', (error) => said.push(error.message))
  return { tab, said, close: () => context.close() }
}

/** What axe finds wrong, as `rule: element`. */
async function violations(tab: Tab, rules?: string[]): Promise<string[]> {
  await tab.evaluate(axe.source)
  const found = await tab.evaluate(async (only) => {
    const { axe } = globalThis as unknown as { axe: typeof import('axe-core') }
    const results = await axe.run(only ? { runOnly: only } : {})
    return results.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  }, rules)
  return found
}

const evaluateWidth = (tab: Tab) =>
  tab.evaluate('document.documentElement.scrollWidth') as Promise<number>

for (const colorScheme of SCHEMES)
  for (const width of WIDTHS)
    t.test(`${colorScheme}, ${width} pixels wide: every page is sound`, async (t) => {
      const { tab, said, close } = await open({ colorScheme, viewport: { width, height: 720 } })
      // Other languages differ by the length of their texts.
      const names = Object.keys(pages).filter((name) => width === 320 || !/^\w\w-/.test(name))
      for (const name of names) {
        await tab.goto(`${origin}/${name}`)
        await tab.evaluate(
          'for (const one of document.querySelectorAll("details")) one.open = true',
        )
        t.ok((await evaluateWidth(tab)) <= width, `${name} has nothing to scroll sideways`)
        t.strictSame(await violations(tab), [], `${name} has nothing for axe to find`)
      }
      t.strictSame(said, [], 'and the console is empty')
      await close()
    })

t.test('names of 300 characters, and in four scripts, overflow no page of a phone', async (t) => {
  const { tab, close } = await open({ viewport: { width: 360, height: 740 } })
  const email = { address: `${'m'.repeat(300)}@example.com`, verified: true }
  for (const name of ['W', 'ж', 'عبد الرحمن ', '山田', 'आदित्य ']) {
    const full = name.repeat(300 / name.length)
    const profile: Profile = { ...ada, name: { full }, email }
    for (const [page, { html }] of Object.entries(samples({ title: full, text: full, profile }))) {
      await tab.setContent(html)
      t.ok((await evaluateWidth(tab)) <= 360, `${page}: ${name}`)
    }
  }
  await close()
})

for (const colorScheme of SCHEMES)
  t.test(`${colorScheme}: whatever the accent, everything can be read`, async (t) => {
    const { tab, close } = await open({ colorScheme })
    for (const accent of accents)
      for (const name of ['sign-out', 'refused']) {
        await tab.goto(`${origin}/${accent.slice(1)}/${name}`)
        t.strictSame(await violations(tab, ['color-contrast']), [], `${name} in ${accent}`)
      }
    await close()
  })

t.test('the pages need neither script nor motion', async (t) => {
  const { tab, close } = await open({ javaScriptEnabled: false, reducedMotion: 'reduce' })
  await tab.goto(`${origin}/sign-out`)
  await tab.getByRole('button', { name: 'Sign out' }).click()
  t.equal(await tab.getByRole('heading', { level: 1 }).textContent(), 'You are signed out')
  t.strictSame(origins.splice(0), [origin], 'and the form tells our own Origin')
  await close()
})

t.test('the keyboard is enough, in the order of reading, with focus in sight', async (t) => {
  const { tab, said, close } = await open({})
  await tab.goto(`${origin}/sign-in`)
  const focused: unknown[] = []
  for (const _ of choices) {
    await tab.keyboard.press('Tab')
    focused.push(
      await tab.evaluate(`[
        document.activeElement.textContent,
        getComputedStyle(document.activeElement).outlineStyle,
        getComputedStyle(document.activeElement).outlineWidth,
      ]`),
    )
  }
  const labels = await tab.locator('main a').allTextContents()
  t.strictSame(
    focused,
    labels.map((label) => [label, 'solid', '3px']),
  )
  await tab.goto(`${origin}/sign-out`)
  await tab.keyboard.press('Tab')
  await tab.keyboard.press('Enter')
  await tab.waitForURL(`${origin}/logout`)
  t.strictSame(origins.splice(0), [origin])
  t.strictSame(said, [])
  await close()
})

t.test('the keyboard reaches every app, the way back and the way out', async (t) => {
  const { tab, close } = await open({ viewport: { width: 320, height: 720 } })
  await tab.goto(`${origin}/signed-in`)
  const links = await tab.locator('main :is(a, summary)').allTextContents()
  const focused: unknown[] = []
  for (const _ of links) {
    await tab.keyboard.press('Tab')
    focused.push(await tab.evaluate('document.activeElement.textContent'))
  }
  t.ok(links.length >= 5)
  t.strictSame(focused, links)
  await close()
})

t.test('high contrast keeps the edges of what can be pressed', async (t) => {
  const { tab, close } = await open({ forcedColors: 'active' })
  await tab.goto(`${origin}/sign-out`)
  const edges = await tab.evaluate(
    `[...document.querySelectorAll('a, button')].map((each) => getComputedStyle(each)).map((style) => [style.borderStyle, style.borderColor !== style.backgroundColor])`,
  )
  t.strictSame(edges, [
    ['solid', true],
    ['solid', true],
  ])
  await close()
})

t.test('a script that got in all the same would not run', async (t) => {
  const { tab, said, close } = await open({})
  const injected = { ...pages['signed-in']! }
  const html = injected.html.replace('</main>', '<script>document.title = "run"</script></main>')
  await tab.route(`${origin}/injected`, (route) =>
    route.fulfill({
      body: html,
      headers: { 'content-type': 'text/html', 'content-security-policy': injected.policy },
    }),
  )
  await tab.goto(`${origin}/injected`)
  t.equal(await tab.title(), 'You are signed in · Example')
  t.match(said, [/script/i], 'and the console says so')
  await close()
})

t.test('the answer to consent reaches the client, and where its own page leads', async (t) => {
  const client = Fastify()
  t.teardown(() => client.close())
  client.get('/callback', (_request, reply) => reply.redirect(`${elsewhere}/done`))
  // Browsers ask for an icon now and then.
  client.get('/favicon.ico', (_request, reply) => reply.code(204).send())
  client.get('/done', (_request, reply) => reply.type('text/html').send('<title>Done</title>'))
  const address = await client.listen({ host: '127.0.0.1', port: 0 })
  const elsewhere = address.replace('127.0.0.1', 'localhost')
  callback = `${address}/callback`
  const { tab, said, close } = await open({ javaScriptEnabled: false })
  for (const decision of ['Allow', 'Deny']) {
    await tab.goto(`${origin}/consent-loopback`)
    await tab.getByRole('button', { name: decision }).click()
    await tab.waitForURL(`${elsewhere}/done`)
    t.equal(decisions.splice(0).join(), `form=sealed&decision=${decision.toLowerCase()}`)
  }
  t.strictSame(said, [])
  await close()
})

t.test('clickjacking: consent is not shown in a frame', async (t) => {
  const { tab, said, close } = await open({})
  await tab.route(`${origin}/framing`, (route) =>
    route.fulfill({ contentType: 'text/html', body: '<iframe src="/consent"></iframe>' }),
  )
  await tab.goto(`${origin}/framing`)
  t.equal(await tab.frameLocator('iframe').getByRole('button').count(), 0)
  t.match(said, [/frame-ancestors 'none'/])
  await close()
})
