import fc from 'fast-check'
import t from 'tap'
import { isNavigation } from '../../src/http/navigation.ts'
import { RECORDED } from '../fixtures/requests-of-engines.ts'

const HTML = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

t.test('what Chromium, Firefox and WebKit send is taken for what it is', async (t) => {
  t.equal(RECORDED.length, 213)
  for (const { what, right, method, headers } of RECORDED)
    t.equal(isNavigation(method, headers), right === 'page' || right === 'prefetch', what)
})

t.test('and so where the proxy does not tell of the destination, or of the site', async (t) => {
  for (const { what, right, method, headers } of RECORDED) {
    const { 'sec-fetch-dest': dest, 'sec-fetch-site': site, ...others } = headers
    if (right !== 'lost') t.equal(isNavigation(method, others), right !== 'call', what)
  }
})

t.test('requests that no engine was recorded with', async (t) => {
  const passedOn = { 'sec-fetch-mode': 'same-origin', 'sec-fetch-dest': 'empty', accept: HTML }
  const copied = { ...passedOn, 'sec-fetch-mode': 'cors', 'upgrade-insecure-requests': '1' }
  const table: [what: string, method: string, headers: Record<string, string>, isPage: boolean][] =
    [
      ['an old web view', 'GET', { accept: HTML }, true],
      ['with the name of its app', 'GET', { accept: HTML, 'x-requested-with': 'org.app' }, true],
      ['its form', 'POST', { accept: HTML }, false],
      ['a library', 'GET', { accept: HTML, 'x-requested-with': 'XMLHttpRequest' }, false],
      ['a form that a worker passes on', 'PUT', passedOn, true],
      ['a part of the page', 'GET', { ...passedOn, 'sec-fetch-dest': 'script' }, false],
      ['a script that asks for HTML', 'GET', { ...passedOn, accept: 'text/html' }, false],
      [
        'one that refuses a page',
        'GET',
        { ...passedOn, accept: `${HTML.slice(0, 31)};q=0` },
        false,
      ],
      ['the headers of a page', 'GET', { ...copied, 'sec-fetch-site': 'same-site' }, true],
      ['of another site', 'GET', { ...copied, 'sec-fetch-site': 'cross-site' }, false],
      ['another value', 'GET', { ...copied, 'upgrade-insecure-requests': '0' }, false],
      ['a web socket', 'GET', { ...passedOn, upgrade: 'websocket' }, false],
      ['an image before the click', 'GET', { 'sec-purpose': 'prefetch', accept: 'image/*' }, false],
    ]
  for (const [what, method, headers, isPage] of table)
    t.equal(isNavigation(method, headers), isPage, what)
})

const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'OPTIONS')
const site = fc.constantFrom('none', 'same-origin', 'same-site', 'cross-site')
const others = fc.record(
  {
    'sec-fetch-dest': fc.constantFrom('document', 'empty', 'iframe', 'image', ''),
    'sec-fetch-site': site,
    'sec-fetch-user': fc.constant('?1'),
    'sec-purpose': fc.constantFrom('prefetch', 'prefetch;prerender'),
    'upgrade-insecure-requests': fc.constantFrom('1', '0'),
    'x-requested-with': fc.string(),
    origin: fc.webUrl(),
    cookie: fc.string(),
  },
  { requiredKeys: [] },
)

t.test('what a script sends of itself is never a page', async () => {
  const mode = fc.constantFrom('cors', 'no-cors', 'same-origin')
  // `fetch` with any settings, and XMLHttpRequest: the browser adds `Accept: */*`.
  const own = fc.record({ 'sec-fetch-mode': mode, 'sec-fetch-site': site })
  const named = fc.record({ 'x-requested-with': fc.string() }, { requiredKeys: [] })
  const sent = fc.tuple(method, own, named)
  fc.assert(
    fc.property(sent, ([method, own, named]) => {
      const headers = { ...own, ...named, 'sec-fetch-dest': 'empty', accept: '*/*' }
      return !isNavigation(method, headers)
    }),
  )
  // Whatever it accepts, unless it writes the headers of a navigation too.
  fc.assert(
    fc.property(method, site, fc.string(), fc.constantFrom('cors', 'no-cors'), (...sent) => {
      const [method, site, accept, mode] = sent
      const headers = { 'sec-fetch-mode': mode, 'sec-fetch-site': site, accept: HTML + accept }
      return !isNavigation(method, headers)
    }),
  )
})

t.test('no header makes a page for a program that does not accept HTML', async () => {
  const mode = fc.constantFrom(undefined, 'cors', 'no-cors', 'same-origin', 'websocket', '')
  const accept = fc.constantFrom(
    undefined,
    '',
    '*/*',
    'application/json',
    'text/*',
    'text/html;q=0',
  )
  fc.assert(
    fc.property(method, others, mode, accept, (method, others, mode, accept) => {
      const headers = {
        ...others,
        ...(mode !== undefined && { 'sec-fetch-mode': mode }),
        ...(accept !== undefined && { accept }),
      }
      return !isNavigation(method, headers)
    }),
  )
})
