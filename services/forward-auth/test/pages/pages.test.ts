import { createHash } from 'node:crypto'
import type { Profile } from '@gatehouse/profile'
import { html as namespaces } from 'parse5'
import t from 'tap'
import { textOn } from '../../src/pages/colors.ts'
import { errorPage, refusedPage, signedInPage, signInPage } from '../../src/pages/pages.ts'
import { texts } from '../../src/pages/texts.ts'
import { PROVIDER_ICONS } from '../../src/providers/options.ts'
import { attribute, below, elements, named, text } from './read.ts'
import { ada, choices, portal, samples } from './samples.ts'

const shape = (html: string) =>
  elements(html).map(({ tagName, attrs }) => [tagName, ...attrs.map(({ name }) => name)].join(' '))

t.test('every page is valid HTML with one main part and one heading, without script', async (t) => {
  for (const [name, { html }] of Object.entries(samples())) {
    const found = elements(html)
    const count = (tag: string) => found.filter(({ tagName }) => tagName === tag).length
    t.equal(attribute(found[0]!, 'lang'), 'en', `${name}: language`)
    for (const tag of ['title', 'header', 'main', 'h1']) t.equal(count(tag), 1, `${name}: ${tag}`)
    for (const tag of ['script', 'img', 'iframe', 'object', 'base'])
      t.equal(count(tag), 0, `${name}: no ${tag}`)
    for (const element of found)
      for (const { name: attr } of element.attrs)
        t.notMatch(attr, /^(on|style$)/, `${name}: <${element.tagName} ${attr}>`)
    for (const svg of found.filter(({ namespaceURI }) => namespaceURI === namespaces.NS.SVG))
      if (svg.tagName === 'svg') t.equal(attribute(svg, 'aria-hidden'), 'true', `${name}: picture`)
  }
})

t.test('the policy allows the one style sheet of the page, and nothing else', async (t) => {
  const accents = ['#4256d0', '#fc0', '#000000']
  for (const accent of accents) {
    for (const [name, { html, policy }] of Object.entries(
      samples({ portal: { ...portal, accent } }),
    )) {
      const [style, ...others] = named(html, 'style').map(text)
      t.strictSame(others, [], `${name}: one style sheet`)
      t.equal(
        policy,
        `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style!).digest('base64')}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
        `${name} in ${accent}`,
      )
    }
  }
})

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
  const { html } = signedInPage({ portal, profile, logoutHref: '/', profileHref: '/' })
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
    ['long', { ...unknown, id: '😀'.repeat(60) }, `?${'😀'.repeat(39)}…Example Corp`],
  ]
  for (const [why, profile, shown] of cases) {
    const page = signedInPage({
      portal: { ...portal, providers },
      profile,
      logoutHref: '',
      profileHref: '',
    })
    const person = elements(page.html).find((each) => attribute(each, 'class') === 'person')
    t.equal(text(person!), shown, why)
  }
})

t.test('pages that the check answers with stay under 4 kB', async (t) => {
  const long = '"'.repeat(10_000)
  const profile: Profile = {
    ...ada,
    name: { full: long },
    email: { address: long, verified: true },
  }
  const requestId = 'f'.repeat(36)
  const href = `https://auth.example.com/portals/main/signin?switch=1&rd=${'x'.repeat(100)}`
  const pages = {
    refused: refusedPage({ portal, profile, switchHref: href, requestId }),
    error: errorPage({ portal, status: 400, title: 'Bad Request', text: long, requestId }),
  }
  for (const [name, { html }] of Object.entries(pages))
    t.ok(Buffer.byteLength(html) <= 4_096, `${name}: ${Buffer.byteLength(html)} bytes`)
})

t.test('uses every text on a page', async (t) => {
  const { name: _name, ...unnamed } = ada
  const shown = Object.values(samples({ profile: unnamed }))
    .flatMap(({ html }) => elements(html))
    .flatMap((element) => [text(element), attribute(element, 'aria-label') ?? ''])
    .join('\n')
  const flat = Object.values(texts).flatMap((each) =>
    typeof each === 'string' ? [each] : Object.values<string | ((name: string) => string)>(each),
  )
  t.ok(flat.length > 20)
  for (const each of flat) {
    const said =
      typeof each === 'string'
        ? [each]
        : [
            each('app.example.com'),
            each('Example Corp'),
            each(new Date(Date.UTC(2030, 0, 1)).toUTCString()),
          ]
    t.ok(
      said.some((one) => shown.includes(one)),
      said[0]!,
    )
  }
})

t.test('the sign-in page lists the providers', async (t) => {
  const page = signInPage({
    portal,
    choices,
    returnTo: new URL('https://app.example.com:8443/x?y'),
  })
  const links = named(page.html, 'a')
  t.strictSame(
    links.map((link) => [attribute(link, 'href'), text(link)]),
    choices.map(({ href, title, failing }) => [
      href,
      failing ? `${title}${texts.signIn.failing}` : title,
    ]),
    'has a link for each provider in their order, and says which is failing',
  )
  t.equal(text(named(page.html, 'p')[0]!), 'Continue to app.example.com:8443', 'says where to')
  t.equal(named(signInPage({ portal, choices }).html, 'p').length, 0, 'if anywhere')
})

t.test('every provider has an icon that contrasts with its tile', async (t) => {
  const draw = (icon: string | undefined, color?: string) =>
    named(signInPage({ portal, choices: [{ ...choices[0]!, icon, color }] }).html, 'svg')[1]!
  const paths = (icon: string | undefined) => attribute(below(draw(icon))[1]!, 'd')
  const drawings = [...PROVIDER_ICONS, undefined].map(paths)
  t.equal(
    new Set(drawings).size,
    PROVIDER_ICONS.length + 1,
    'each provider has a drawing of its own',
  )
  for (const unknown of ['constructor', 'https://example.com/x.svg', ''])
    t.equal(paths(unknown), paths(undefined), `"${unknown}" is drawn as the neutral one`)
  for (const color of ['#ffeb3b', '#123']) {
    const [tile, drawing] = below(draw('github', color))
    t.equal(attribute(tile!, 'fill'), color, `${color} is the tile`)
    t.equal(attribute(drawing!, 'stroke'), textOn(color), `${color} has a drawing that can be seen`)
  }
})
