import { join } from 'node:path'
import { LANGUAGES } from '@gatehouse/service-kit/pages'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Page as Tab } from 'playwright-core'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { inEveryLook, openTab } from './tabs.ts'

const LABEL = 'Name, address, serial number or fingerprint'
const FAILING = /^failing.example.com\s+the intermediate ends too soon\s+Failing, expires in 7 days/
const NEVER = /^never\..*\s+No certificate: the intermediate ends too soon\s+Failing, next try/

/** The service over HTTPS, with the certificate of its own CA. */
async function listen(
  t: Test,
  fill?: (running: Running) => Promise<void>,
  folder: string = testFolder(t),
): Promise<string> {
  const running = await start(t, {}, { tls: true, folder })
  await fill?.(running)
  const address = await running.app.listen({ host: '127.0.0.1', port: 0 })
  return address.replace('127.0.0.1', 'localhost')
}

/** As many certificates as fill pages, among them long, failing, ending and ended ones. */
const fill = (running: Running) => fillWith(running, [])

async function fillWith({ service: { store } }: Running, failing: readonly string[]) {
  const add = (names: string[], moments: object = {}) =>
    store.addCertificate(newCertificate({ names, ...moments }), newAudit())
  await add(['gone.example.com'], { notBefore: NOW - 8 * DAY, notAfter: NOW - DAY, renewAt: null })
  await add(['ending.example.com'], { notAfter: NOW + DAY, renewAt: null })
  await add(['failing.example.com'], { renewAt: NOW + 60_000 })
  const long = 'donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbau'
  const more = Array.from({ length: 50 }, (_, n) => `n${n}.${long}.example.com`)
  await add([`${long}.${long}.${long}.example.com`, ...more], { renewAt: NOW + 120_000 })
  for (let n = 0; n < 196; n += 1)
    await add([`app${n}.example.com`], { renewAt: NOW + (n + 1) * 3_600_000 })
  const lastError = { code: 'PKI_CA_EXPIRED', detail: 'the intermediate ends too soon', at: NOW }
  for (const name of ['failing.example.com', `never.${long}.${long}.example.com`, ...failing])
    await store.saveOrder(
      newOrder({
        id: name,
        requestKey: `ca|server|p256|${name}`,
        names: [name],
        status: 'failed',
        lastError,
        nextTryAt: NOW + 60_000,
      }),
    )
}

/** The same, and forty names that never had a certificate. */
function fillFailing(running: Running) {
  return fillWith(
    running,
    Array.from({ length: 40 }, (_, n) => `never${n}.example.com`),
  )
}

async function enter(tab: Tab, key: string) {
  await tab.getByLabel('API key').fill(key)
  await tab.getByRole('button', { name: 'Show certificates' }).click()
}

t.test('every page is sound in both schemes at every width', async (t) => {
  const folder = testFolder(t, { empty: {}, full: {}, failing: {} })
  const empty = await listen(t, async () => {}, join(folder, 'empty'))
  const full = await listen(t, fill, join(folder, 'full'))
  const failing = await listen(t, fillFailing, join(folder, 'failing'))
  await inEveryLook(t, async ({ tab, said, scheme, hold }) => {
    await tab.goto(`${empty}/`)
    await hold('sign-in')
    await enter(tab, 'a-wrong-key-a-wrong-key')
    await tab.getByRole('alert').waitFor()
    await hold('wrong key')
    await enter(tab, KEY)
    await tab.getByText('No certificates yet').waitFor()
    await hold('nothing held')
    await tab.goto(`${empty}/?x=1`)
    await hold('problem')
    await tab.goto(`${empty}/docs`)
    await tab.evaluate('for (const one of document.querySelectorAll("details")) one.open = true')
    await hold('docs')

    await tab.goto(`${full}/`)
    await enter(tab, KEY)
    await tab.getByText('Needs attention').waitFor()
    await hold('inventory')
    await tab.goto(`${failing}/`)
    await enter(tab, KEY)
    await hold('more fails than is shown first')
    await tab.getByText('All failing').click()
    await tab.getByText('never7.example.com').waitFor()
    await hold('what fails')
    await tab.goto(`${full}/?q=nothing-of-that-name`)
    await hold('nothing found')
    t.strictSame(said, [], `${scheme}: the console is empty`)
  })
})

t.test('on a phone, the first name is on the first screen, in every language', async (t) => {
  const origin = await listen(t, fill)
  for (const locale of LANGUAGES) {
    const { context, tab, said } = await openTab({
      ...{ locale, viewport: { width: 360, height: 640 } },
    })
    await tab.goto(`${origin}/`)
    await tab.locator('input[name=key]').fill(KEY)
    await tab.keyboard.press('Enter')
    const { y = 640, height = 0 } = (await tab.locator('.list b').first().boundingBox()) ?? {}
    t.ok(y + height <= 640, `${locale}: it ends at ${y + height}`)
    t.equal(await tab.locator('html').getAttribute('lang'), locale)
    t.strictSame(said, [], locale)
    await context.close()
  }
})

t.test('a command is copied, and that is said', async (t) => {
  const origin = await listen(t)
  const { context, tab, said } = await openTab({
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  await tab.goto(`${origin}/`)
  await enter(tab, KEY)
  await tab.getByRole('button', { name: 'Copy Request it by the API' }).click()
  await tab.getByText('Copied').waitFor()
  t.match(await tab.getByRole('status').textContent(), 'Copied')
  t.match(await tab.evaluate('navigator.clipboard.readText()'), /^curl .*"app\.example\.com"}'$/)
  t.strictSame(said, [], 'no policy is violated')
  await context.close()
})

t.test('without script: in, search, look closer, next page, out', async (t) => {
  const origin = await listen(t, fill)
  const { context, tab } = await openTab({ javaScriptEnabled: false })
  await tab.goto(`${origin}/`)
  await enter(tab, KEY)
  await tab.getByRole('heading', { name: 'Certificates' }).waitFor()
  t.match(await context.cookies(), [
    {
      name: '__Host-gatehouse-certs',
      domain: 'localhost',
      path: '/',
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
      expires: -1,
    },
  ])
  const rows = tab.locator('.list a')
  t.equal(await rows.count(), 2 + 50)
  t.match(await rows.allInnerTexts(), [
    ...[FAILING, NEVER, /^gone.example.com\s+Expired 24 hours ago/],
    ...[FAILING, NEVER],
  ])

  await tab.getByRole('link', { name: 'Next page' }).click()
  t.match(await rows.first().textContent(), 'app45.example.com')
  t.equal(await tab.getByText('Needs attention').count(), 0, 'failures stand on the first page')

  await tab.getByLabel(LABEL).fill('APP12.')
  await tab.getByRole('button', { name: 'Find' }).click()
  t.equal(await rows.count(), 1)
  await rows.click()
  await tab.getByText('Expires', { exact: true }).waitFor()
  await tab.goBack()
  await tab.getByRole('link', { name: 'Show all' }).click()
  t.equal(await rows.count(), 2 + 50)

  const kept = await context.cookies()
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await tab.getByLabel('API key').waitFor()
  t.same(await context.cookies(), [], 'no cookie is left')
  await context.addCookies(kept)
  await tab.goto(`${origin}/`)
  t.ok(await tab.getByLabel('API key').isVisible(), 'nor is one of any use that was kept')
  await context.close()
})

t.test('the keyboard is enough', async (t) => {
  const origin = await listen(t, fill)
  const { context, tab } = await openTab({})
  await tab.goto(`${origin}/`)
  await tab.locator('input[name=key]:focus').waitFor()
  await tab.keyboard.type(KEY)
  await tab.keyboard.press('Enter')
  await tab.getByRole('button', { name: 'Sign out' }).waitFor()
  const reached: string[] = []
  for (let n = 0; n < 30 && reached.at(-1) !== 'gone.example.com'; n += 1) {
    await tab.keyboard.press('Tab')
    const [name, outline] = (await tab.evaluate(`[
      (document.activeElement.labels?.[0] ?? document.activeElement).innerText,
      getComputedStyle(document.activeElement).outlineWidth,
    ]`)) as string[]
    reached.push(/^\d/.test(name!) ? name!.replace(/\s+/g, ' ') : name!.split('\n', 1)[0]!)
    t.equal(outline, '3px', `${name}: in focus`)
  }
  t.match(reached, [
    ...['Gatehouse', 'Sign out', '201 All', '197 Renews', '0 Being renewed', '1 Not renewed'],
    ...['2 Failing', '1 Expired', 'Covered', 'Not served', LABEL, 'Sort by', 'Find'],
    ...[/^failing.example.com/, /^never\./, /^gone.example.com/],
  ])
  await tab.keyboard.press('Enter')
  await tab.getByText('Expired', { exact: true }).waitFor()
  await context.close()
})
