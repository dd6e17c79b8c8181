import { LANGUAGES } from '@gatehouse/service-kit/pages'
import t from 'tap'
import { callPage, callsPage, type ShownCall } from '../../src/pages/calls.ts'
import { fill, textsIn } from '../../src/pages/languages.ts'
import { argumentLines } from '../../src/pages/visible.ts'
import { attribute, elements, hrefsIn, named, text, timeText } from './read.ts'
import { ada, call, callForm, PORTAL, portal } from './samples.ts'

const view = { portal, profile: ada, language: 'en', portalUrl: PORTAL, listHref: '/list' } as const
const pageFor = (special: Partial<ShownCall> = {}, form: Partial<typeof callForm> = {}) =>
  callPage({ ...view, call: call(special), result: { ...callForm, ...form } })

t.test('each fact, in each language', (t) => {
  for (const language of LANGUAGES) {
    const { calls, consent, agents } = textsIn(language)
    const { html } = callPage({ ...view, language, call: call(), result: callForm })
    const labels = named(html, 'dt').map(text)
    t.strictSame(labels, [
      ...[calls.tool, calls.server, consent.app, calls.arguments, calls.begun, calls.until],
    ])
    const facts = named(html, 'dd').map((each) => text(each).replace(/\s+/g, ' '))
    t.strictSame(facts.toSpliced(3, 1), [
      ...['delete_note', 'notes.example.com/mcp', `claude.ai${consent.callsItself} Claude`],
      ...[timeText(language, call().begun), timeText(language, call().until)],
    ])
    t.strictSame(named(html, 'button').map(text), [
      ...[calls.once, fill(calls.remember, { minutes: '15' }), consent.deny, calls.end],
    ])
    const own = callPage({
      ...{ ...view, language, call: call({ clientHost: undefined }) },
      result: { ...callForm, isOfAgent: false },
    })
    t.match(own.html, agents.selfRegistered)
    t.notMatch(own.html, calls.end)
    for (const result of ['allowed', 'denied', 'ended', 'expired'] as const) {
      const page = callPage({ ...view, language, call: call(), result })
      t.equal(text(named(page.html, 'h1')[0]!), calls[result])
      t.match(page.html, calls[`${result}Text`])
      t.strictSame(named(page.html, 'form'), [], 'no form')
    }
  }
  t.end()
})

t.test('each argument is one line, and its hidden parts are marked', (t) => {
  const given = { to: `ok${' '.repeat(9_000)}evil`, 'a\u202eb': '</bdi><h1>x', fake: 'U+202E' }
  const { html } = pageFor({ tool: 'rm\u200b', arguments: argumentLines(given)! })
  t.strictSame(named(html, 'li').map(text), [
    ...['to"ok␣×9000evil"', 'aU+202Eb"</bdi><h1>x"', 'fake"U+202E"'],
  ])
  t.strictSame(named(html, 'mark').map(text), ['U+200B', '␣×9000', 'U+202E'])
  t.equal(named(html, 'h1').length, 1)
  const isolated = named(html, 'bdi').filter((each) => attribute(each, 'dir') === 'ltr')
  t.equal(isolated.length, 7, 'the tool, three names and three values')
  t.match(text(named(pageFor({ arguments: [] }).html, 'dl')[0]!), '–')
  t.end()
})

t.test('nothing that a program names is a link, a script or a form', (t) => {
  const evil = '"><script>alert(1)</script><a href="https://evil.test">'
  const tags = (html: string) => elements(html).map(({ tagName }) => tagName)
  const special = { tool: evil, clientName: evil, arguments: argumentLines({ [evil]: evil })! }
  const { html, policy } = pageFor(special)
  const plain = pageFor({ arguments: argumentLines({ a: 'b' })! })
  t.strictSame(tags(html), tags(plain.html))
  t.equal(policy, plain.policy)
  t.strictSame(hrefsIn(html), ['/list'])
  t.match(pageFor({}, { hasStepUp: true }).policy, "form-action 'self' https:;")
  t.match(policy, "form-action 'self';")
  const list = callsPage({
    ...view,
    calls: [{ ...call(special), href: '/one' }],
  })
  t.strictSame(hrefsIn(list.html), ['/one'])
  t.end()
})
