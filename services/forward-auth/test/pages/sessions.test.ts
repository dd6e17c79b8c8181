import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import t from 'tap'
import { accountPage } from '../../src/pages/account.ts'
import { fill, textsIn } from '../../src/pages/languages.ts'
import { type ShownAgent, type ShownSession, sessionsPage } from '../../src/pages/sessions.ts'
import { attribute, below, type Element, elements, hrefsIn, named, text, waysIn } from './read.ts'
import { ada, agent, PORTAL, portal, session } from './samples.ts'

const { sessions: texts, agents: agentTexts } = textsIn('en')
const reader = { portal, language: 'en', portalUrl: PORTAL } as const

const account = (sessions: readonly ShownSession[]) =>
  accountPage({
    ...{ ...reader, profile: ada },
    ownSessions: {
      ...{ sessions, endAction: '/end' },
      ...{ othersAction: '/others', everywhereAction: '/everywhere' },
    },
  }).html

const everybody = (sessions: readonly ShownSession[], person?: string) =>
  sessionsPage({
    ...{ ...reader, sessions, person, endAction: '/end', searchAction: '/sessions' },
    ...{ endPersonAction: '/end-person' },
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

const TIMES = ['1 Jan 2030, 08:00 UTC', '1 Jan 2030, 09:30 UTC', '1 Jan 2030, 16:00 UTC']

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
    ['post', '/others', texts.endOthers],
    ['post', '/everywhere', texts.everywhere],
  ])
  t.strictSame(named(html, 'mark').map(text), [texts.current], 'the current one is marked')
  t.ok(hrefsIn(html).includes(`${PORTAL}/logout`), 'and ended by signing out')
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
  const unknown = accountPage({ ...reader, profile: ada }).html
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
  t.strictSame(hrefsIn(all), [])
  t.strictSame(waysIn(all), [`${PORTAL}/account`, `${PORTAL}/logout`])
  const searched = ['get', '/sessions', 'person=b@"x', texts.search]
  const endAll = ['post', '/end-person', 'person=b@"x', texts.endAll]
  const one = everybody(found.slice(1), 'b@"x')
  t.strictSame(formsIn(one), [searched, endAll, end])
  t.strictSame(hrefsIn(one), ['/sessions'])
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
  for (const html of [everybody(many), account(many)]) {
    t.equal(named(html, 'li').length, 100)
    t.equal(below(named(html, 'dd')[4]!).length, 20, 'hosts of each')
    t.match(text(named(html, 'dd')[4]!), /…$/, 'and says that there are more')
    t.ok(Buffer.byteLength(html) < 350_000, `${Buffer.byteLength(html)} bytes`)
  }
  const more = fill(texts.onlyNewest, { count: '100' })
  t.match(account(many), more)
  t.notMatch(account([one]), 'sessions are shown')
})

t.test('what clients send is isolated from the direction of the text around it', async (t) => {
  const [agent, address, host] = ['\u202eagent', '\u202eaddress', '\u202ehost']
  const html = account([session({ userAgent: agent, address, hosts: [host] })])
  t.strictSame(named(html, 'bdi').map(text).slice(2), [agent, address, host])
})

/** The page of a person, and that of administrators, with agents. */
const withAgents = (agents: readonly ShownAgent[], language: Language = 'en') => {
  const lists = { sessions: [session({ isCurrent: true })], agents }
  const all = { ...reader, ...lists, language, endAction: '/end', searchAction: '/sessions' }
  const ownSessions = { ...lists, endAction: '/end', othersAction: '/o', everywhereAction: '/e' }
  return [
    accountPage({ ...reader, language, profile: ada, ownSessions }).html,
    sessionsPage({ ...all, endPersonAction: '/end-person' }).html,
  ]
}

const agentsIn = (html: string) =>
  named(html, 'section')
    .filter((each) => attribute(each, 'aria-labelledby') === 'agents')
    .flatMap((each) => below(each).filter(({ tagName }) => tagName === 'li'))

t.test('connected agents are listed below the sessions, in each language', async (t) => {
  for (const language of LANGUAGES) {
    const { agents: words, consent, sessions } = textsIn(language)
    const table: [why: string, special: Partial<ShownAgent>, head: string, facts: string[]][] = [
      [
        'usual',
        {},
        `claude.ai${consent.callsItself} Claude`,
        ['notes.example.com/mcp', 'notes:readnotes:write'],
      ],
      [
        'registered itself',
        { clientHost: undefined, name: 'claude.ai' },
        `${words.selfRegistered}${consent.callsItself} claude.ai`,
        ['notes.example.com/mcp', 'notes:readnotes:write'],
      ],
      [
        'no name, no scopes',
        { name: undefined, scopes: [], resources: ['https://notes.example.com/'] },
        'claude.ai',
        ['notes.example.com', ''],
      ],
    ]
    for (const html of withAgents(
      table.map(([, special]) => agent(special)),
      language,
    )) {
      t.match(named(html, 'h2').map(text).at(-1), words.title)
      const names = [words.resource, words.scopes, words.begun, words.lastCall, sessions.ends]
      for (const [index, [why, , head, facts]] of table.entries()) {
        const item = agentsIn(html)[index]!
        t.equal(text(below(item)[0]!), head, `${language}: ${why}`)
        t.strictSame(factsOf(item).slice(0, 2), facts, `${language}: ${why}`)
        t.strictSame(
          below(item)
            .filter(({ tagName }) => tagName === 'dt')
            .map(text),
          names,
        )
      }
    }
  }
  const [first] = agentsIn(withAgents([agent()])[0]!)
  t.strictSame(factsOf(first!).slice(2), TIMES)
  for (const html of [...withAgents([]), account([session()]), everybody([session()])])
    t.notMatch(html, agentTexts.title, 'no agent, no heading')
})

t.test('a button ends an agent, and tells which one', async (t) => {
  for (const html of withAgents([
    agent({ id: '"g1' }),
    agent({ id: 'g2', clientHost: 'b.test' }),
  ])) {
    const ends = formsIn(html).filter(([, action]) => action === '/end')
    t.strictSame(ends, [
      ['post', '/end', 'session="g1', agentTexts.end],
      ['post', '/end', 'session=g2', agentTexts.end],
    ])
    const ids = elements(html).flatMap((each) => attribute(each, 'id') ?? [])
    t.equal(new Set(ids).size, ids.length, 'no identifier comes twice')
    const buttons = agentsIn(html).flatMap((item) =>
      below(item).filter((each) => each.tagName === 'button'),
    )
    const told = buttons.map((button) =>
      text(
        elements(html).find(
          (each) => attribute(each, 'id') === attribute(button, 'aria-describedby'),
        )!,
      ),
    )
    t.match(told, [/^claude\.ai/, /^b\.test/])
  }
})

t.test('administrators see whose agents they are, and end them with the person', async (t) => {
  const found = { ...reader, sessions: [], agents: [agent({ profile: ada })], endAction: '/end' }
  const hrefs = {
    searchAction: '/sessions',
    endPersonAction: '/end-person',
  }
  const { html } = sessionsPage({ ...found, ...hrefs, person: 'ada' })
  t.match(text(agentsIn(html)[0]!), 'Ada Lovelace')
  t.match(html, texts.none, 'no session')
  t.strictSame(
    formsIn(html).map(([, action]) => action),
    ['/sessions', '/end-person', '/end'],
  )
})

t.test(
  'however many agents and scopes there are, and whatever they say, a page is bounded',
  async (t) => {
    const long = `&"\u202e${'&'.repeat(10_000)}`
    const scopes = Array.from({ length: 1_000 }, () => long)
    const one = agent({ clientHost: `${long}.evil.test`, name: long, resources: [long], scopes })
    const many = Array.from({ length: 1_000 }, () => one)
    for (const html of withAgents(many)) {
      t.equal(agentsIn(html).length, 100)
      t.ok(Buffer.byteLength(html) < 500_000, `${Buffer.byteLength(html)} bytes`)
      t.match(html, fill(agentTexts.onlyNewest, { count: '100' }))
      t.match(text(agentsIn(html)[0]!), '.evil.test')
      t.equal(text(named(html, 'q')[0]!).startsWith("&'&&"), true, 'without quotes or turns')
    }
  },
)
