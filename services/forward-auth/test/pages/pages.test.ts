import { createHash } from 'node:crypto'
import { PROVIDER_ICONS } from '@gatehouse/identity-providers'
import type { Profile } from '@gatehouse/profile'
import { LANGUAGES } from '@gatehouse/service-kit/pages'
import { html as namespaces } from 'parse5'
import t from 'tap'
import { ERRORS, STATUS_OF } from '../../src/errors.ts'
import { accountPage } from '../../src/pages/account.ts'
import { textOn } from '../../src/pages/colors.ts'
import { textsIn } from '../../src/pages/languages.ts'
import { errorPage, refusedPage, signInPage } from '../../src/pages/pages.ts'
import { sessionsPage } from '../../src/pages/sessions.ts'
import { attribute, below, elements, named, text } from './read.ts'
import { ada, agent, choices, PORTAL, portal, samples, session } from './samples.ts'

const texts = textsIn('en')

const shape = (html: string) =>
  elements(html).map(({ tagName, attrs }) => [tagName, ...attrs.map(({ name }) => name)].join(' '))

/** Every page in every language. */
const everyPage = LANGUAGES.flatMap((language) =>
  Object.entries(samples({ language })).map(
    ([name, page]) => [`${language}/${name}`, page, language] as const,
  ),
)

t.test(
  'every page is valid HTML with one main part and one heading, and a script for its times alone',
  async (t) => {
    for (const [name, { html, language: sent }, language] of everyPage) {
      t.equal(sent, language, `${name}: content language`)
      const found = elements(html)
      const count = (tag: string) => found.filter(({ tagName }) => tagName === tag).length
      t.equal(attribute(found[0]!, 'lang'), language, `${name}: language`)
      for (const tag of ['title', 'header', 'main', 'h1']) t.equal(count(tag), 1, `${name}: ${tag}`)
      t.notMatch(html, />\s*(false|true|null|undefined|NaN|\[object)\b/, `${name}: no bare value`)
      for (const tag of ['script', 'img', 'iframe', 'object', 'base']) {
        const isUsed = { script: count('time') > 0, img: name.endsWith('/unsent') }[tag]
        t.equal(count(tag), isUsed ? 1 : 0, `${name}: no ${tag}`)
      }
      for (const element of found)
        for (const { name: attr } of element.attrs)
          t.notMatch(attr, /^(on|style$)/, `${name}: <${element.tagName} ${attr}>`)
      for (const svg of found.filter(({ namespaceURI }) => namespaceURI === namespaces.NS.SVG))
        if (svg.tagName === 'svg')
          t.equal(attribute(svg, 'aria-hidden'), 'true', `${name}: picture`)
    }
  },
)

const hashOf = (source: string) =>
  `'sha256-${createHash('sha256').update(source).digest('base64')}'`

t.test(
  'the policy allows the one style sheet of the page, the script of its times, and nothing else',
  async (t) => {
    const accents = ['#4256d0', '#fc0', '#000000']
    for (const accent of accents) {
      for (const [name, { html, policy }] of Object.entries(
        samples({ portal: { ...portal, accent } }),
      )) {
        // The answer to its form redirects to the client: consent.test.ts. That of an app posts there: check/hops.test.ts.
        if (name.startsWith('consent') || name === 'onTheWay') continue
        const [style, ...others] = named(html, 'style').map(text)
        t.strictSame(others, [], `${name}: one style sheet`)
        const [script] = named(html, 'script').map(text)
        const run = script === undefined ? '' : `; script-src ${hashOf(script)}`
        t.equal(
          policy,
          `default-src 'none'; style-src ${hashOf(style!)}; img-src data:; form-action 'self'${run}; frame-ancestors ${name === 'framed' ? 'example.com:* *.example.com:*' : "'none'"}; base-uri 'none'`,
          `${name} in ${accent}`,
        )
      }
    }
  },
)

const hostile = [
  '<script>alert(1)</script>',
  '</title></style><img src=x onerror=alert(1)>',
  '" onmouseover="alert(1)',
  "' onfocus='alert(1)' autofocus='",
  '&lt;b&gt; &amp;',
  "'unsafe-inline'; script-src *",
  '-->]]>{{1}}`',
  '\u202egro.elpmaxe\u2066',
]

t.test('texts of people and providers never become markup or policy', async (t) => {
  const usual = samples()
  for (const said of hostile) {
    const profile: Profile = {
      ...ada,
      provider: said,
      id: said,
      name: { full: said },
      email: { address: `${said}@`, verified: true },
    }
    const title = said
    const pages = samples({
      portal: { ...portal, title },
      profile,
      title,
      text: said,
      requestId: said,
      href: said,
    })
    for (const [name, { html, policy }] of Object.entries(pages)) {
      t.strictSame(shape(html), shape(usual[name]!.html), `${name}: same elements with ${said}`)
      t.equal(policy, usual[name]!.policy, `${name}: same policy`)
      if (name !== 'error-bare') t.equal(text(named(html, 'header')[0]!), said, `${name}: as text`)
    }
  }
  t.throws(() => samples({ portal: { ...portal, accent: '#fff}body{display:none' } }), TypeError)
})

t.test('names of people are isolated from the direction of the text around them', async (t) => {
  const name = '\u202eecalevoL adA'
  const profile: Profile = { ...ada, name: { full: name } }
  const { html } = accountPage({
    portal,
    language: 'en',
    portalUrl: PORTAL,
    profile,
  })
  t.strictSame(named(html, 'bdi').map(text), [name, 'ada@example.com'])
})

t.test('shows the name, else the address, else the ID of a person', async (t) => {
  const { name: _name, ...unnamed } = ada
  const { email: _email, ...unknown } = unnamed
  const provider = { title: 'The Corporation' }
  const providers = new Map([['corp', provider]]) as unknown as typeof portal.providers
  const cases: [why: string, profile: Profile, shown: string][] = [
    ['name and address', ada, 'AAda Lovelaceada@example.com · Example Corp'],
    ['address alone', unnamed, 'Aada@example.comExample Corp'],
    ['identifier alone', unknown, '55f0c2c1eExample Corp'],
    ['title of the provider', { ...unknown, provider: 'corp' }, '55f0c2c1eThe Corporation'],
    ['no letter', { ...unknown, id: '(:' }, '?(:Example Corp'],
    ['not Latin', { ...unknown, name: { full: 'юлия' } }, 'ЮюлияExample Corp'],
    ['long', { ...unknown, id: '😀'.repeat(60) }, `?${'😀'.repeat(16)}…Example Corp`],
  ]
  for (const [why, profile, shown] of cases) {
    const page = accountPage({
      language: 'en',
      portalUrl: PORTAL,
      portal: { ...portal, providers },
      profile,
    })
    const person = elements(page.html).find((each) => attribute(each, 'class') === 'person')
    t.equal(text(person!), shown, why)
  }
})

t.test('pages that the check answers with stay under 4 kB', async (t) => {
  const profile = (long: string): Profile => ({
    ...ada,
    name: { full: long },
    email: { address: long, verified: true },
  })
  const requestId = 'f'.repeat(36)
  const image = { name: `${'f'.repeat(16)}.webp`, type: 'image/webp', bytes: Buffer.alloc(0) }
  const branded = { ...portal, logo: image, favicon: image }
  const portalUrl = `https://auth.${'x'.repeat(40)}.example.com/portals/main`
  const href = `https://auth.example.com/portals/main/signin?switch=1&rd=${'x'.repeat(100)}`
  const codes = [...Object.keys(ERRORS), 'NOT_FOUND', 'INTERNAL', 'FST_ERR_BAD_URL']
  for (const language of LANGUAGES) {
    let [largest, size] = ['', 0]
    const measure = (name: string, { html }: { html: string }) => {
      const bytes = Buffer.byteLength(html)
      if (bytes > size) [largest, size] = [name, bytes]
    }
    for (const long of ['"', '😀', 'x'].map((one) => one.repeat(10_000)))
      for (const door of [portal, branded]) {
        const said = { portal: door, language, portalUrl, requestId }
        const refused = { ...said, profile: profile(long), switchHref: href, host: long }
        measure('refused', refusedPage(refused))
        for (const code of codes)
          measure(
            code,
            errorPage({ ...said, status: 403, code, problem: { title: code, detail: long } }),
          )
        const blocked = {
          code: 'FWA_COOKIES_BLOCKED',
          status: 400,
          problem: { title: '', detail: long },
        }
        measure('blocked', errorPage({ ...said, ...blocked, retryHref: href }))
      }
    t.ok(size > 3_000 && size <= 4_096, `${language}: ${size} bytes at most, ${largest}`)
  }
})

t.test('every error page says what happened, what to do next, and its code', async (t) => {
  for (const language of LANGUAGES) {
    const { errors } = textsIn(language)
    const known = Object.values(errors)
    for (const code of Object.keys(ERRORS)) {
      const status = STATUS_OF[code]!
      const { html } = errorPage({ portal, language, status, code, requestId: 'abc' })
      const [title = '', happening = '', next = ''] = [
        ...named(html, 'h1').map(text),
        ...named(html, 'p').map(text),
      ]
      t.ok(
        known.some(
          (error) => error.title === title && error.text === happening && error.next === next,
        ),
        `${language}: ${code}`,
      )
      t.match(text(named(html, 'footer')[0]!), `${status} ${code}`)
    }
  }
})

/** The pages of people who are not signed in, are on the way, or sign out: each has its own ways on. */
const OUTSIDE = [
  ...['sign-in', 'sign-in-one', 'sign-out', 'signed-out', 'signed-out-here', 'provider-down'],
  ...['unsent', 'unsentAbroad', 'framed', 'onTheWay', 'refused-everywhere', 'error-bare'],
]

t.test('every page of people who may be signed in leads to their account, and out', async (t) => {
  for (const [name, { html }] of Object.entries(samples())) {
    const hrefs = named(html, 'a').map((link) => attribute(link, 'href'))
    const ways = [`${PORTAL}/account`, `${PORTAL}/logout`].filter((way) => hrefs.includes(way))
    const isAccount = /^(signed-in|account|apps)/.test(name)
    t.equal(ways.length, OUTSIDE.includes(name) ? 0 : isAccount ? 1 : 2, name)
    if (isAccount) t.strictSame(ways, [`${PORTAL}/logout`], name)
    const forms = named(html, 'form').length
    if (name !== 'error-bare') t.ok(hrefs.length + forms > 0, `${name} is no dead end`)
  }
})

t.test('who has to wait is told for how long, and tries again at the same address', async (t) => {
  const error = {
    portal,
    portalUrl: PORTAL,
    language: 'en',
    requestId: 'abc',
    status: 429,
  } as const
  const { html } = errorPage({ ...error, code: 'FWA_RATE_LIMITED', retryAfter: 90, retryHref: '' })
  t.match(html, 'Try again in 90 seconds.')
  t.strictSame(named(html, 'a').map((link) => [attribute(link, 'href'), text(link)])[0], [
    '',
    texts.retry,
  ])
  const unknown = errorPage({ ...error, code: 'FWA_RATE_LIMITED' })
  t.match(unknown.html, texts.errors.FWA_RATE_LIMITED.next)
})

t.test('success, warning and refusal differ by symbol, colour and words', async (t) => {
  const toneOf = (page: string) => {
    const symbol = elements(page).find((each) => attribute(each, 'class')?.startsWith('symbol'))
    const [, tone] = attribute(symbol!, 'class')?.split(' ') ?? []
    const [, path] = below(symbol!)
    return [tone, attribute(path!, 'd')]
  }
  const pages = samples()
  const of = (name: string) => toneOf(pages[name]!.html)
  const tones = {
    good: ['signed-in', 'signed-out'],
    warn: ['error', 'signed-out-here'],
    bad: ['refused', 'error-refused'],
  }
  const paths = new Set<string | undefined>()
  for (const [tone, names] of Object.entries(tones)) {
    const found = names.map(of)
    for (const [i, [shown]] of found.entries()) t.equal(shown, tone, names[i] ?? '')
    t.strictSame(found[0], found[1], `${tone}: the same symbol`)
    paths.add(found[0]?.[1])
    t.match(pages[names[0]!]!.html, `.${tone}{--accent:var(--${tone})}`)
  }
  t.equal(paths.size, 3)
  t.equal(of('provider-down')[0], 'warn')
})

t.test('uses every text on a page', async (t) => {
  const { name: _name, ...unnamed } = ada
  for (const language of LANGUAGES) {
    const { errors, ...others } = textsIn(language)
    const crowded = sessionsPage({
      ...{ portal, language, portalUrl: PORTAL, endAction: '/end', searchAction: '/sessions' },
      ...{ endPersonAction: '/end-person' },
      sessions: Array(101).fill(session()),
      agents: Array(101).fill(agent()),
    })
    const shown = [...Object.values(samples({ profile: unnamed, language })), crowded]
      .flatMap(({ html }) => elements(html))
      .flatMap((element) => [text(element), attribute(element, 'aria-label') ?? ''])
      .join('\n')
    const flat = Object.values(others).flatMap((each) =>
      typeof each === 'string' ? [each] : Object.values<string>(each),
    )
    t.ok(flat.length > 20)
    for (const each of flat) {
      const parts = each.replace(/[^\s\w{}]/g, '\\$&').split(/\{\w+\}/)
      t.match(shown, new RegExp(parts.join('.+')), `${language}: ${each}`)
    }
    t.ok(errors)
  }
})

t.test('the sign-in page lists the providers', async (t) => {
  const page = signInPage({
    portal,
    language: 'en',
    portalUrl: PORTAL,
    choices,
    returnTo: new URL('https://app.example.com:8443/x?y'),
  })
  const links = named(page.html, 'a')
  t.strictSame(
    links.map((link) => [attribute(link, 'href'), text(link)]),
    choices.map(({ href, title, condition }) => [
      href,
      condition === 'well' ? title : `${title}${texts.signIn[condition]}`,
    ]),
    'has a link for each provider in their order, and says which is slow or away',
  )
  t.equal(text(named(page.html, 'p')[0]!), 'Continue to app.example.com:8443', 'says where to')
  t.equal(
    named(
      signInPage({ portal: { ...portal, texts: {} }, language: 'en', portalUrl: PORTAL, choices })
        .html,
      'p',
    ).length,
    0,
    'if anywhere',
  )
})

t.test('every provider has an icon that contrasts with its tile', async (t) => {
  const draw = (icon: string | undefined, color?: string) =>
    named(
      signInPage({
        portal,
        language: 'en',
        portalUrl: PORTAL,
        choices: [{ ...choices[0]!, icon, color }],
      }).html,
      'svg',
    )[1]!
  const paths = (icon: string | undefined) => attribute(below(draw(icon))[1]!, 'd')
  const drawings = [...PROVIDER_ICONS.keys(), undefined].map(paths)
  t.equal(new Set(drawings).size, PROVIDER_ICONS.size + 1, 'each provider has a drawing of its own')
  for (const unknown of ['constructor', 'https://example.com/x.svg', ''])
    t.equal(paths(unknown), paths(undefined), `"${unknown}" is drawn as the neutral one`)
  for (const color of ['#ffeb3b', '#123']) {
    const [tile, drawing] = below(draw('github', color))
    t.equal(attribute(tile!, 'fill'), color, `${color} is the tile`)
    t.equal(attribute(drawing!, 'stroke'), textOn(color), `${color} has a drawing that can be seen`)
  }
})
