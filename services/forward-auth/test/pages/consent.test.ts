import { LANGUAGES, sendPage } from '@gatehouse/service-kit/pages'
import Fastify from 'fastify'
import t from 'tap'
import { consentPage } from '../../src/pages/consent.ts'
import { fill, textsIn } from '../../src/pages/languages.ts'
import { attribute, below, elements, hrefsIn, named, text } from './read.ts'
import { asked } from './samples.ts'

const pageFor = (special: Parameters<typeof asked>[0] = {}) => consentPage(asked(special))

/** What the page says, as `label: fact`, in its order. */
const factsIn = (html: string) =>
  named(html, 'dl')
    .flatMap(below)
    .flatMap((each) => {
      if (each.tagName === 'dt') return [[text(each)]]
      return each.tagName === 'dd' ? [[text(each)]] : []
    })
    .flat()

t.test('each state, in each language: whose host is proven comes first', async (t) => {
  for (const language of LANGUAGES) {
    const { consent: texts, refused } = textsIn(language)
    const words = language === 'de' ? 'Ihre Notizen lesen' : 'Read your notes'
    const scopes = `${words}notes:readWrite and delete notesnotes:write`
    const rest = [texts.resource, 'notes.example.com/mcp', texts.scopes, scopes]
    const opens = fill(texts.opens, { scheme: 'cursor:' })
    const own = { clientHost: undefined }
    const device = { redirectHost: '127.0.0.1:33418', isLoopback: true }
    const called = `${texts.callsItself} Claude`
    const table: [why: string, special: Parameters<typeof asked>[0], facts: string[]][] = [
      ['a host', {}, [texts.app, `claude.ai${called}`, texts.answer, 'claude.ai']],
      ['no name', { name: undefined }, [texts.app, 'claude.ai', texts.answer, 'claude.ai']],
      [
        'an app',
        { redirectHost: 'cursor:' },
        [texts.app, `claude.ai${called}`, texts.answer, opens],
      ],
      ['this device', device, [texts.app, `claude.ai${called}`, texts.answer, '127.0.0.1:33418']],
      [
        'one that an operator has registered',
        { ...own, isConfigured: true },
        [texts.app, 'Claude', texts.answer, 'claude.ai'],
      ],
      ['itself', own, [texts.answer, 'claude.ai', texts.app, called]],
      ['itself, here', { ...own, ...device }, [texts.answer, '127.0.0.1:33418', texts.app, called]],
      [
        'itself, an app',
        { ...own, redirectHost: 'cursor:' },
        [texts.answer, opens, texts.app, called],
      ],
    ]
    for (const [why, special, facts] of table) {
      const { html } = pageFor({ ...special, language })
      t.strictSame(factsIn(html), [...facts, ...rest], `${language}: ${why}`)
      const notices = elements(html).filter((each) => attribute(each, 'class') === 'notice')
      const isItself = why.startsWith('itself')
      const expected = [
        ...(isItself ? [texts.selfRegistered] : []),
        ...(special?.isLoopback ? [texts.loopback] : []),
      ]
      t.strictSame(notices.map(text), expected, `${language}: ${why}: warning`)
      t.equal(text(named(html, 'h1')[0]!), texts.title)
      t.match(html, 'Ada Lovelace', 'who is signed in')
      t.match(html, refused.switchAccount)
    }
    const [first] = named(pageFor({ language }).html, 'li').flatMap(below)
    t.equal(attribute(first!, 'lang'), language === 'de' || language === 'en' ? undefined : 'en')
    t.strictSame(factsIn(pageFor({ language, scopes: [] }).html).length, 6, 'no scope, no list')
  }
})

t.test('one form allows or denies, by POST with what was sealed', async (t) => {
  const { html } = pageFor({ form: '"sealed', action: '/consent', switchHref: '/switch' })
  const forms = named(html, 'form')
  t.strictSame(
    forms.map((form) => [attribute(form, 'method'), attribute(form, 'action')]),
    [['post', '/consent']],
  )
  const fields = below(forms[0]!).map((each) =>
    ['type', 'name', 'value'].map((name) => attribute(each, name)),
  )
  t.strictSame(fields, [
    ['hidden', 'form', '"sealed'],
    [undefined, 'decision', 'allow'],
    [undefined, 'decision', 'deny'],
  ])
  t.strictSame(hrefsIn(html), ['/switch'], 'nothing that a client names is a link')
})

const LONG = 'x'.repeat(5_000)
/** A name, and what is shown of it; undefined if nothing is. */
const NAMES: readonly (readonly [name: string, shown: string | undefined])[] = [
  ['', undefined],
  ['  \n\u200b\u202e\u2069 ', undefined],
  ['<script>alert(1)</script>', '<script>alert(1)</script>'],
  ['</bdi></q><h1>Gatehouse', '</bdi></q><h1>Gatehouse'],
  ['Claude” is verified by “Example', "Claude' is verified by 'Example"],
  ['«Claude» „Claude“ "Claude"', "'Claude' 'Claude' 'Claude'"],
  ['\u2069\u202egro.elpmaxe', 'gro.elpmaxe'],
  ['\u2067a\u2066b\u200fc\u061cd', 'abcd'],
  ['Claude\n\n\n\u2028Verified', 'Claude Verified'],
  ['Z\u0300\u0301\u0302\u0303\u0304algo', 'Z\u0300\u0301algo'],
  ['\ud800Claude', 'Claude'],
  ['نوت', 'نوت'],
  [LONG, `${'x'.repeat(64)}…`],
  ['&'.repeat(5_000), `${'&'.repeat(12)}…`],
]

t.test('what a client calls itself stays within its quotes', async (t) => {
  const tags = (html: string) => elements(html).map(({ tagName }) => tagName)
  const usual = pageFor()
  const unnamed = pageFor({ name: undefined })
  for (const [name, shown] of NAMES) {
    const { html, policy } = pageFor({ name })
    const quoted = named(html, 'q').map((each) => [text(each), below(each)[0]?.tagName])
    t.strictSame(quoted, shown === undefined ? [] : [[shown, 'bdi']], shown ?? 'nothing')
    t.strictSame(tags(html), tags((shown === undefined ? unnamed : usual).html), 'same elements')
    t.equal(policy, usual.policy, 'same policy')
  }
})

t.test('of a long host the end is shown, since it says whose it is', async (t) => {
  const host = `accounts.google.com.${LONG}.evil.test`
  for (const [why, special] of [
    ['client', { clientHost: host }],
    ['redirect', { redirectHost: host }],
  ] as const) {
    const { html } = pageFor(special)
    t.match(html, /…x{200,}\.evil\.test/, why)
    t.notMatch(html, 'google', why)
  }
  const resource = `https://notes.example.com/${LONG}`
  const everything = { name: LONG, clientHost: host, redirectHost: host, resource }
  t.ok(Buffer.byteLength(pageFor(everything).html) < 12_000, 'and the page is bounded')
})

t.test('nothing comes from elsewhere', async (t) => {
  for (const language of LANGUAGES) {
    const { html, policy } = pageFor({
      language,
      clientHost: 'evil.test',
      name: 'https://evil.test',
    })
    const urls = elements(html).flatMap(({ attrs }) =>
      attrs.filter(({ name }) => ['src', 'href', 'action', 'srcset'].includes(name)),
    )
    for (const { value } of urls)
      t.match(value, /^(\/portals\/|https:\/\/auth\.example\.com\/portals\/main\/|mailto:|data:)/)
    t.notMatch(html, /@import|url\(/)
    t.match(policy, "default-src 'none'")
  }
})

t.test(
  'the answer to the form may redirect to the client, and no text of it is in the policy',
  async (t) => {
    const table: [redirectHost: string, isLoopback: boolean, forms: string][] = [
      ['claude.ai', false, "'self' https:"],
      ['127.0.0.1:33418', true, "'self' http:"],
      ['[::1]:33418', true, "'self' http:"],
      ['cursor:', false, "'self' cursor:"],
      ['com.example.app:', false, "'self' com.example.app:"],
      // Hosts that URLs may have.
      ['a;sandbox', false, "'self' https:"],
      ["*.example.com,script-src'*'", false, "'self' https:"],
      // What is no scheme.
      ["x; script-src 'unsafe-inline':", false, "'self'"],
      ['https://evil.test *:', false, "'self'"],
      ['*:', false, "'self'"],
      ['a\r\nset-cookie:', false, "'self'"],
      [':', false, "'self'"],
    ]
    for (const [redirectHost, isLoopback, forms] of table) {
      const { policy } = pageFor({ redirectHost, isLoopback })
      const directives = policy.split('; ').filter((each) => !each.startsWith('style-src'))
      t.strictSame(
        directives,
        [
          ...["default-src 'none'", 'img-src data:', `form-action ${forms}`],
          ...["frame-ancestors 'none'", "base-uri 'none'"],
        ],
        redirectHost,
      )
    }
  },
)

t.test('clickjacking: no site can frame the question, and no cache keeps it', async (t) => {
  const app = Fastify()
  t.teardown(() => app.close())
  const states = [{}, { redirectHost: 'cursor:' }, { clientHost: undefined, isLoopback: true }]
  app.get('/:state', (request, reply) => {
    const { state } = request.params as { state: number }
    return sendPage(reply, 200, pageFor(states[state]))
  })
  for (const state of states.keys()) {
    const { headers } = await app.inject(`/${state}`)
    const policy = String(headers['content-security-policy'])
    t.match(policy, /; frame-ancestors 'none'; base-uri 'none'$/)
    t.equal(policy.match(/frame-ancestors/g)?.length, 1)
    t.match(headers, { 'cache-control': 'no-store', 'referrer-policy': 'same-origin' })
  }
})
