import t from 'tap'
import { accountPage } from '../../src/pages/account.ts'
import { en } from '../../src/pages/languages/en.ts'
import { fill } from '../../src/pages/languages/index.ts'
import { type ShownSession, sessionsPage } from '../../src/pages/sessions.ts'
import { attribute, below, type Element, elements, hrefsIn, named, text } from './read.ts'
import { ada, IMAGES, portal, session } from './samples.ts'

const texts = en.sessions
const reader = { portal, language: 'en', imagesUrl: IMAGES } as const

const account = (sessions: readonly ShownSession[], hasMore = false) =>
  accountPage({
    ...{ ...reader, profile: ada, logoutHref: '/logout' },
    own: {
      ...{ sessions, hasMore, endAction: '/end' },
      ...{ othersAction: '/others', everywhereAction: '/everywhere' },
    },
  }).html

const everybody = (sessions: readonly ShownSession[], person?: string) =>
  sessionsPage({
    ...{ ...reader, sessions, person, endAction: '/end', searchAction: '/sessions' },
    ...{ endPersonAction: '/end-person', accountHref: '/account' },
  }).html

/** What each form sends, and where to. */
const formsIn = (html: string) =>
  named(html, 'form').map((form) => [
    attribute(form, 'method') ?? 'get',
    attribute(form, 'action'),
    ...below(form).flatMap((each) =>
      each.tagName === 'input' ? [`${attribute(each, 'name')}=${attribute(each, 'value')}`] : [],
    ),
    below(form)
      .filter(({ tagName }) => tagName === 'button')
      .map(text)
      .join(),
  ])

/** What the list says of each session. */
const shownIn = (html: string) => named(html, 'li').map((item) => [nameOf(item), ...factsOf(item)])
const nameOf = (item: Element) => text(below(item).find(({ tagName }) => tagName === 'b')!)
const factsOf = (item: Element) =>
  below(item).flatMap((each) => (each.tagName === 'dd' ? [text(each).replace(/\s/g, ' ')] : []))

const DAY = ['January 1, 2030 at 08:00 AM UTC', 'January 1, 2030 at 09:30 AM UTC']
const TIMES = [...DAY, 'January 1, 2030 at 04:00 PM UTC']

t.test('tells the facts of each session, in the order given', async (t) => {
  const table: [why: string, special: Partial<ShownSession>, shown: string[]][] = [
    ['usual', {}, ['Firefox on Linux', '192.0.2.7', ...TIMES, 'app.example.comwiki.example.com']],
    [
      'unknown device',
      { userAgent: 'curl/8.16.0', address: undefined, hosts: [] },
      ['Unknown device curl/8.16.0', '', ...TIMES, ''],
    ],
    [
      'nothing known',
      { userAgent: '', address: '2001:db8::7', hosts: ['a.example.com:8443'] },
      ['Unknown device ', '2001:db8::7', ...TIMES, 'a.example.com:8443'],
    ],
    [
      'system alone',
      { userAgent: 'Wget (Linux)' },
      ['Linux Wget (Linux)', '192.0.2.7', ...TIMES, 'app.example.comwiki.example.com'],
    ],
  ]
  const all = account(table.map(([, special]) => session(special)))
  for (const [index, [why, , shown]] of table.entries())
    t.strictSame(
      shownIn(all)[index]!.map((each) => each.replace(/\s+/g, ' ')),
      shown,
      why,
    )
  t.strictSame(
    named(all, 'dt').slice(0, 5).map(text),
    [texts.address, texts.begun, texts.lastSeen, texts.ends, texts.hosts],
    'each with its name',
  )
})

t.test('a person ends one session, the others, or all', async (t) => {
  const current = session({ id: 'a1', isCurrent: true })
  const html = account([current, session({ id: 'b2' }), session({ id: '"c3' })])
  t.strictSame(formsIn(html), [
    ['post', '/end', 'session=b2', texts.end],
    ['post', '/end', 'session="c3', texts.end],
    ['post', '/others', texts.others],
    ['post', '/everywhere', texts.everywhere],
  ])
  t.strictSame(named(html, 'mark').map(text), [texts.here], 'the current one is marked')
  t.ok(hrefsIn(html).includes('/logout'), 'and ended by signing out')
  const ids = elements(html).flatMap((each) => attribute(each, 'id') ?? [])
  t.equal(new Set(ids).size, ids.length, 'no identifier comes twice')
  for (const button of named(html, 'button').slice(0, 2)) {
    const described = elements(html).find(
      (each) => attribute(each, 'id') === attribute(button, 'aria-describedby'),
    )
    t.match(text(described!), 'Firefox on Linux', 'a button tells which session it ends')
  }

  const alone = account([current])
  t.strictSame(formsIn(alone), [], 'no other, no form')
  t.equal(named(alone, 'li').length, 1)
  const unknown = accountPage({ ...reader, profile: ada, logoutHref: '/logout' }).html
  t.strictSame([formsIn(unknown), named(unknown, 'ul')], [[], []], 'nor where none can be listed')
  t.notMatch(unknown, '.sessions{', 'nor styles for it')
})

t.test('administrators search for a person, and end all of their sessions', async (t) => {
  const bob = { ...ada, name: { full: 'Bob' }, email: { address: 'b@example.com', verified: true } }
  const found = [session({ profile: ada, isCurrent: true }), session({ id: 'b2', profile: bob })]
  const search = ['get', '/sessions', 'person=', texts.search]
  const end = ['post', '/end', 'session=b2', texts.end]
  const all = everybody(found)
  t.strictSame(formsIn(all), [search, end])
  const people = elements(all).filter((each) => attribute(each, 'class') === 'person')
  t.strictSame(people.map(text), [
    'AAda Lovelaceada@example.com · Example Corp',
    'BBobb@example.com · Example Corp',
  ])
  t.strictSame(hrefsIn(all), ['/account'])
  const searched = ['get', '/sessions', 'person=b@"x', texts.search]
  const endAll = ['post', '/end-person', 'person=b@"x', texts.endAll]
  const one = everybody(found.slice(1), 'b@"x')
  t.strictSame(formsIn(one), [searched, endAll, end])
  t.strictSame(hrefsIn(one), ['/sessions', '/account'])
  const none = everybody([], 'b@"x')
  t.strictSame(formsIn(none), [searched], 'nobody found, nothing to end')
  t.match(none, texts.none)
  const [label] = named(all, 'label')
  const [field] = named(all, 'input')
  t.equal(attribute(label!, 'for'), attribute(field!, 'id'), 'the field has its label')
})

t.test('however much there is, a page is bounded', async (t) => {
  const long = '&'.repeat(10_000)
  const hosts = Array.from({ length: 1_000 }, (_, index) => `h${index}.${long}`)
  const name = { full: long }
  const email = { address: long, verified: true }
  const one = session({ userAgent: long, address: long, hosts, profile: { ...ada, name, email } })
  const many = Array.from({ length: 1_000 }, () => one)
  for (const html of [everybody(many), account(many, true)]) {
    t.equal(named(html, 'li').length, 100)
    t.equal(below(named(html, 'dd')[4]!).length, 20, 'hosts of each')
    t.match(text(named(html, 'dd')[4]!), /…$/, 'and says that there are more')
    t.ok(Buffer.byteLength(html) < 350_000, `${Buffer.byteLength(html)} bytes`)
  }
  const more = fill(texts.more, { count: '100' })
  t.match(account(many, true), more)
  t.notMatch(account([one]), 'sessions are shown')
})

t.test('what clients send is isolated from the direction of the text around it', async (t) => {
  const [agent, address, host] = ['\u202eagent', '\u202eaddress', '\u202ehost']
  const html = account([session({ userAgent: agent, address, hosts: [host] })])
  t.strictSame(named(html, 'bdi').map(text).slice(2), [agent, address, host])
})
