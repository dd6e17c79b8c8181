import t from 'tap'
import { logoutPage, refusedPage, signInPage } from '../../src/pages/pages.ts'
import { attribute, named, text } from './read.ts'
import { ada, choices, PORTAL, portal } from './samples.ts'

const signInText = (texts: typeof portal.texts, language: 'en' | 'fr') =>
  signInPage({ portal: { ...portal, texts }, language, portalUrl: PORTAL, choices }).html

t.test('a portal has texts of its own, in the language of the page or the nearest', async (t) => {
  const german = { title: { de: 'Willkommen' }, intro: { en: 'Hello', de: 'Hallo' } }
  const page = signInText({ ...german, footer: 'Imprint' }, 'fr')
  t.equal(text(named(page, 'h1')[0]!), 'Willkommen', 'the first one')
  const [intro, footer] = named(page, 'p')
  t.strictSame([text(intro!), attribute(intro!, 'lang')], ['Hello', 'en'], 'English, and says so')
  t.strictSame([text(footer!), attribute(footer!, 'lang')], ['Imprint', undefined])
  const [own] = named(signInText({ intro: { fr: 'Bonjour', en: 'Hello' } }, 'fr'), 'p')
  t.strictSame([text(own!), attribute(own!, 'lang')], ['Bonjour', undefined])
  const hostile = '<script>alert(1)</script>'
  const shown = signInText({ title: hostile, intro: hostile, footer: hostile }, 'en')
  t.equal(named(shown, 'script').length, 0)
  t.equal(text(named(shown, 'h1')[0]!), hostile)
})

t.test('pages of errors and refusals say whom to ask', async (t) => {
  const reader = { language: 'en', portalUrl: PORTAL } as const
  const said = { ...reader, profile: ada, switchHref: '/x', requestId: 'abc' }
  const table: [contact: string | undefined, link: string | undefined, shown: string][] = [
    ['mailto:help@example.com', 'mailto:help@example.com', 'Need help? help@example.com'],
    ['https://help.example.com/x', 'https://help.example.com/x', 'Need help? help.example.com/x'],
    ['Room 17, or phone: 4711', undefined, 'Need help? Room 17, or phone: 4711'],
    [undefined, undefined, ''],
  ]
  for (const [contact, link, shown] of table) {
    const { html } = refusedPage({ ...said, portal: { ...portal, contact } })
    const found = named(html, 'p').find((each) => attribute(each, 'class') === 'ask')
    t.equal(found ? text(found) : '', shown, contact ?? 'none')
    t.equal(attribute(named(html, 'a')[1] ?? named(html, 'p')[0]!, 'href'), link, `${shown}: link`)
  }
  const { html } = logoutPage({ ...said, portal, action: '/logout', stayHref: '/' })
  t.notMatch(html, 'Need help?', 'and others do not')
})
