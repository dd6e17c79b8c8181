import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFetch } from '@gatehouse/net'
import t from 'tap'
import { launchChromium } from '../../../../services/forward-auth/test/integration/chromium.ts'
import { settingsFor, start } from '../program.ts'

t.test('signing in, looking around, verifying and signing out in a browser', async (t) => {
  const settings = await settingsFor(join(t.testdir(), 'gatehouse'))
  const { printed, stop } = await start(t, settings)
  const browser = await launchChromium(t)
  // As a person does who goes on past the warnings.
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  const page = await context.newPage()
  const textOf = async (selector: string) => (await page.textContent(selector)) ?? ''

  const [signInUrl = ''] = /https:\S+\/signin/.exec(printed()) ?? []
  const portal = signInUrl.replace('/signin', '')
  await page.goto(signInUrl)
  t.match(
    page.url(),
    `https://idp.gatehouse.localhost:${settings.GATEHOUSE_HTTPS_PORT}/interaction/`,
  )
  await page.click('text=Alice Arden')
  await page.waitForURL('**/portals/main/account')
  t.match(await textOf('main'), /Signed in[\s\S]*Alice Arden/i)

  await page.goto(`${portal}/profile`)
  t.match(await textOf('pre'), /^Authenticated\n\nID: alice\nProvider: demo\n/)
  await page.goto(`${portal}/profile.json`)
  t.match(JSON.parse(await textOf('pre')), { id: 'alice', groups: ['admin', 'staff'] })

  const cookies = await context.cookies(portal)
  const cookie = cookies.find(({ name }) => name === '__Host-gatehouse.main')
  const { hostname: domain } = new URL(portal)
  t.match(cookie, { domain, httpOnly: true, secure: true, sameSite: 'Lax' })
  const fetch = createFetch({
    ca: await readFile(join(t.testdirName, 'gatehouse/root.pem'), 'utf8'),
  })
  t.teardown(() => fetch.close())
  const verify = async () => {
    const { status, body } = await fetch(new URL('/api/portals/main/verify', portal), {
      headers: { authorization: `Bearer ${cookie?.value}` },
      status: [200, 401],
    })
    return { status, ...JSON.parse(body.toString()) }
  }
  t.match(await verify(), { status: 200, valid: true, claims: { email: 'alice@example.com' } })

  await page.goto(`${portal}/logout`)
  await page.click('button')
  await page.waitForSelector('text=You are signed out')
  t.match(await verify(), { status: 401, valid: false })
  await page.click('text=Also sign out')
  await page.click('text=Yes, sign me out')
  // Back from the provider.
  await page.waitForURL('**/portals/main/logout')
  await page.click('text=Sign in again')
  await page.click('text=Bob Birch')
  await page.waitForURL('**/portals/main/account')
  t.match(await textOf('main'), 'Bob Birch')
  t.equal(await stop(), 0)
})
