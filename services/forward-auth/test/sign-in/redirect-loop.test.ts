import fc from 'fast-check'
import t from 'tap'
import { countRedirect, resetRedirectCount } from '../../src/sign-in/redirect-loop.ts'
import { headersOf, sent } from '../web/kit.ts'

const MAIN = { name: 'main' }
const NOW = 1_900_000_000_000
const [ONE, TWO] = ['https://app.example.com/1', 'https://app.example.com/2']

/** One browser: its cookie, and a clock. */
function start() {
  const browser = { now: NOW, cookie: '' }
  const go = (target: string, kind: Parameters<typeof countRedirect>[2]) => {
    const { isLoop, cookie } = countRedirect(MAIN, target, kind, browser.cookie, browser.now)
    browser.cookie = sent(cookie)
    return isLoop
  }
  return { browser, go }
}

t.test(
  'the third login, the fifth step-up and the sixth bounce to one page within half a minute are a loop',
  async (t) => {
    const rounds = (kind: Parameters<typeof countRedirect>[2]) => {
      const { go } = start()
      return Array.from({ length: 7 }, () => go(ONE, kind)).indexOf(true) + 1
    }
    t.equal(rounds('login'), 3)
    t.equal(rounds('step-up'), 5)
    t.equal(rounds('bounce'), 6)
  },
)

t.test('tabs that set out before the last one came back are no loop', async (t) => {
  const { browser } = start()
  const bounce = (begun: number) => {
    const { isLoop, cookie } = countRedirect(
      MAIN,
      ONE,
      'bounce',
      browser.cookie,
      browser.now,
      begun,
    )
    browser.cookie = sent(cookie)
    return isLoop
  }
  for (let tab = 0; tab < 24; tab++) {
    browser.now += 100
    t.notOk(bounce(NOW), `tab ${tab}`)
  }
  const rounds = Array.from({ length: 6 }, () => {
    browser.now += 100
    return bounce(browser.now - 50)
  })
  t.equal(rounds.indexOf(true), 4, 'while one that sets out again and again is')
})

t.test('counts four return URLs at a time, each on its own', async (t) => {
  const { go, browser } = start()
  for (let i = 0; i < 2; i++) for (const page of [ONE, TWO]) t.notOk(go(page, 'login'))
  t.ok(go(ONE, 'login'))
  t.ok(go(TWO, 'login'))
  for (let i = 0; i < 100; i++) t.notOk(go(`https://app.example.com/tab/${i}`, 'login'))
  t.ok(browser.cookie.length < 200)
})

t.test('ignores redirects that are half a minute old or from the future', async (t) => {
  for (const step of [30_000, -1]) {
    const { go, browser } = start()
    for (let i = 0; i < 2; i++) go(ONE, 'login')
    browser.now += step
    t.notOk(go(ONE, 'login'), String(step))
  }
})

t.test('sets a cookie for this host and half a minute', async (t) => {
  const { cookie } = countRedirect(MAIN, ONE, 'login', undefined, NOW)
  t.match(await headersOf(cookie), [
    /^__Host-gatehouse-rounds\.main=[\w:-]+; Max-Age=30; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  ])
  t.match(await headersOf(resetRedirectCount(MAIN)), [
    /^__Host-gatehouse-rounds\.main=; Max-Age=0; Path=\/;/,
  ])
})

t.test('takes any cookie without an error or a loop', async () => {
  const text = fc.string({ unit: 'binary-ascii' }).map((it) => it.replaceAll(';', ''))
  const forged = fc.oneof(
    text,
    fc.constantFrom(`${'a'.repeat(12)}:99:${NOW}`, `${'a'.repeat(12)}:1:0~~~~`, '~'.repeat(9_000)),
  )
  fc.assert(
    fc.property(forged, (value) => {
      const header = `__Host-gatehouse-rounds.main=${value}`
      const { isLoop, cookie } = countRedirect(MAIN, ONE, 'login', header, NOW)
      return !isLoop && /^__Host-gatehouse-rounds\.main=[\w:~-]{1,200}$/.test(sent(cookie))
    }),
  )
})
