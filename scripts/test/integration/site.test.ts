import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import t from 'tap'
import { launchChromium } from '../../../services/forward-auth/test/integration/chromium.ts'
import { linksOf, ROOT, readDocument } from '../markdown.ts'
import { QUESTIONS } from '../questions.ts'

const BASE = '/gatehouse/'
const SOURCE = 'https://code.example/gatehouse'
const OUT = join(ROOT, 'dist/site')

const { status, stdout, stderr } = spawnSync('npm', ['run', 'site'], {
  cwd: ROOT,
  encoding: 'utf8',
  env: { ...process.env, CI: '1', BASE, SOURCE, REVISION: 'v1' },
})
if (status !== 0) throw new Error(`npm run site: ${stdout}${stderr}`)

const HTML = globSync('**/*.html', { cwd: OUT }).sort()
const read = (file: string) => readFileSync(join(OUT, file), 'utf8')
const unescaped = (text: string) => text.replaceAll('&amp;', '&').replaceAll('&quot;', '"')

/** A file of each kind of page. */
const KINDS = [
  'index.html',
  'docs/index.html',
  'docs/traefik.html',
  'docs/comparison.html',
  'docs/reference/errors.html',
  'docs/reference/forward-auth.html',
  'docs/reference/command-line.html',
  'nothing.html',
]

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}
const server = createServer((request, response) => {
  const path = new URL(request.url ?? '', 'http://localhost').pathname.replace(BASE, '')
  const file = join(OUT, path === '' || path.endsWith('/') ? `${path}index.html` : path)
  const found = existsSync(file) && statSync(file).isFile()
  const type = TYPES[extname(file)] ?? 'application/octet-stream'
  response.writeHead(found ? 200 : 404, { 'content-type': found ? type : 'text/html' })
  response.end(readFileSync(found ? file : join(OUT, '404.html')))
})
server.listen(0, '127.0.0.1')
t.teardown(() => server.close())
const origin = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}`
const browser = await launchChromium(t)
const axe = createRequire(join(ROOT, 'services/forward-auth/package.json'))('axe-core')

t.test('every document is a page, with its Markdown beside it', async (t) => {
  const documents = globSync('{README,SECURITY,CHANGELOG,CONTRIBUTING,docs/**/*}.md', { cwd: ROOT })
  t.ok(documents.length > 50)
  const places = documents.map((file) => file.replace(/README\.md$/, 'index.md'))
  t.strictSame(HTML, [...places.map((place) => place.replace(/md$/, 'html')), '404.html'].sort())
  for (const place of places) t.match(read(place), /^# /m, place)
  for (const file of HTML) t.notMatch(read(file), /<th[^>]*><\/th>|<img(?![^>]* alt)/, file)
})

t.test('no link is dead, and nothing is loaded from elsewhere', async (t) => {
  const ids = new Map(
    HTML.map((file) => [
      file,
      new Set([...read(file).matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => unescaped(id))),
    ]),
  )
  let links = 0
  for (const file of HTML)
    for (const [, tag = '', rest = ''] of read(file).matchAll(/<(\w+)( [^>]*)>/g)) {
      const [, target] = / (?:href|src|srcset)="([^" ]*)/.exec(rest) ?? []
      if (target === undefined) continue
      links += 1
      const { origin, pathname, hash } = new URL(
        unescaped(target),
        `https://site.example${BASE}${file}`,
      )
      if (origin !== 'https://site.example') {
        if (tag !== 'a' || !/^https:|^http:\/\/localhost|^mailto:/.test(target))
          t.fail(`${file}: ${target}`)
        continue
      }
      const path = decodeURI(pathname.replace(BASE, '')).replace(/(^|\/)$/, '$1index.html')
      if (!existsSync(join(OUT, path))) t.fail(`${file}: ${target} leads to nothing`)
      const known = ids.get(path)
      if (known && hash !== '' && !known.has(decodeURIComponent(hash.slice(1))))
        t.fail(`${file}: ${target} has no such anchor`)
    }
  t.ok(links > 3_000)
  const styles = globSync('**/*.css', { cwd: OUT }).map(read).join('')
  t.notMatch(styles, /url\(["']?(https?:)?\/\/|@import/)
  t.match(read('docs/traefik.html'), `href="${SOURCE}/blob/v1/examples/proxies/traefik.yaml"`)
})

t.test('the Markdown beside the pages leads to Markdown that is there', async (t) => {
  for (const file of globSync('{*,docs/**/*}.md', { cwd: OUT }))
    for (const link of linksOf({ ...readDocument(join('dist/site', file)), file })) {
      if (/^\w+:|^#/.test(link)) continue
      const path = join(OUT, file, '..', link.replace(/#.*/, ''))
      t.ok(existsSync(path), `${file}: ${link}`)
    }
})

t.test('llms.txt names the pages of the index, with links to their Markdown', async (t) => {
  const text = read('llms.txt')
  t.match(text, /^# Gatehouse\n\n> \S.+\.\n\n(- \[.+\n)+\n## /)
  const links = [...text.matchAll(/^- \[[^\]]+\]\(([^)]+)\)(?:: \S.*)?$/gm)].map(
    ([, to = '']) => to,
  )
  for (const link of links)
    t.ok(existsSync(join(OUT, link.replace(BASE, '').replace(/#.*/, ''))), link)
  const indexed = linksOf(readDocument('docs/README.md')).filter(
    (link) => !/^\.\.|^\w+:/.test(link),
  )
  t.ok(indexed.length > 40)
  for (const file of indexed) t.ok(links.includes(`${BASE}docs/${file}`), file)
})

/** Nouns of the glossary that mean one thing wherever people read them. */
const PLAIN = [
  'agent',
  'assertion',
  'caller',
  'lineage',
  'portal',
  'replica',
  'sign-in host',
  'ticket',
]

t.test('the first use of a noun on a page leads to what the glossary says of it', async (t) => {
  const glossary = read('docs/glossary.html')
  const index = read('docs/index.html')
  const road = ['start', 'behind-your-proxy', 'login', 'certificates'].flatMap((section) => {
    const [, list = ''] = new RegExp(`<h2 id="${section}"([\\s\\S]*?)<h2 `).exec(index) ?? []
    return [...list.matchAll(/href="\.\/([\w/-]+\.html)"/g)].map(([, page]) => `docs/${page}`)
  })
  t.ok(road.length > 35)
  const noun = /<a href="[^"]*glossary\.html#([\w-]+)" class="noun" title="[^"]+">([^<]+)<\/a>/g
  const met = new Set<string>()
  for (const file of HTML) {
    const linked = [...read(file).matchAll(noun)].map(([, anchor = '']) => anchor)
    t.equal(new Set(linked).size, linked.length, `${file}: each once`)
    for (const anchor of linked) t.match(glossary, `<td id="${anchor}"`)
    if (!road.includes(file)) continue
    for (const anchor of linked) met.add(anchor)
    const text = read(file)
      .replace(/^[\s\S]*?<main[^>]*>|<footer[\s\S]*$/g, '')
      .replace(noun, '<noun $1>')
      .replace(/<(h\d|th|a|code|svg|div class="language)\b[\s\S]*?<\/(h\d|th|a|code|svg|pre)>/g, '')
    for (const word of PLAIN) {
      const use = new RegExp(
        `<noun ${word.replace(' ', '-')}>|(?<![\\w-])${word}s?\\b(?![^<]*>)`,
        'i',
      )
      t.match(use.exec(text)?.[0] ?? '<noun', /^<noun/, `${file}: ${word}`)
    }
  }
  for (const word of [...PLAIN, 'check', 'policy', 'rule'])
    t.ok(met.has(word.replace(' ', '-')), `${word} is linked where newcomers read`)
  t.notMatch(
    read('docs/machine-callers.html'),
    'glossary.html#rule',
    'a rule of cert-service is another one',
  )
})

/** A tab whose console and requests to elsewhere are noted. */
async function open(options: Parameters<typeof browser.newContext>[0]) {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(20_000)
  const tab = await context.newPage()
  const said: string[] = []
  tab.on('console', (message) => {
    const text = message.text()
    if (['error', 'warning'].includes(message.type()) && !/status of 404/.test(text))
      said.push(text)
  })
  tab.on('pageerror', (error) => said.push(error.message))
  tab.on('request', (request) => {
    if (!/^data:/.test(request.url()) && !request.url().startsWith(origin()))
      said.push(request.url())
  })
  return { tab, said, close: () => context.close() }
}

async function violations(tab: Awaited<ReturnType<typeof browser.newPage>>): Promise<unknown> {
  await tab.evaluate(axe.source)
  return tab.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`)
}

t.test('the search answers each question of the field among its first three results', async (t) => {
  const { tab, said, close } = await open({ viewport: { width: 1280, height: 900 } })
  await tab.goto(origin())
  await tab.locator('.DocSearch-Button').click()
  const options = tab.getByRole('option')
  const find = async (words: string) => {
    await tab.getByRole('combobox').fill('')
    await options.first().waitFor({ state: 'detached' })
    await tab.getByRole('combobox').fill(words)
    await options.first().waitFor()
    const links = await Promise.all((await options.all()).map((link) => link.getAttribute('href')))
    return links.map((link) => link?.replace(BASE, '').replace(/#.*/, '') ?? '')
  }
  for (const { question, answer } of QUESTIONS) {
    const page = `docs/${answer.replace(/\.md#.*/, '.html')}`
    const first = (await find(question)).slice(0, 3)
    t.ok(first.includes(page), `${question} ${page}: ${first.join(', ')}`)
  }
  for (const words of ['threats', 'attack', 'cookie tossing'])
    t.notOk((await find(words)).includes('docs/threats.html'), `${words}: no page for auditors`)
  t.strictSame(said, [])
  await close()
})

/** The texts of a page, but for blocks of code, and those of which a part is outside of the window or cut off by a box. */
const TEXTS = `(() => {
  const hidden = []
  let count = 0
  const walker = document.createTreeWalker(document.querySelector('.vp-doc'), NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { currentNode: text } = walker
    if (!text.data.trim() || text.parentElement.closest('[class*=language-], .header-anchor')) continue
    let [left, right] = [0, document.documentElement.clientWidth]
    for (let box = text.parentElement; box; box = box.parentElement) {
      if (getComputedStyle(box).overflowX === 'visible') continue
      const bounds = box.getBoundingClientRect()
      left = Math.max(left, bounds.left)
      right = Math.min(right, bounds.right)
    }
    const range = document.createRange()
    range.selectNodeContents(text)
    const rects = [...range.getClientRects()]
    const isVisible = rects.length > 0 && rects.every((rect) => rect.left >= left - 1 && rect.right <= right + 1)
    count += 1
    if (!isVisible) hidden.push(text.data.trim())
  }
  return { count, hidden, width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight }
})()`

interface Texts {
  readonly count: number
  readonly hidden: readonly string[]
  readonly width: number
  readonly height: number
}

for (const [width, height] of [
  [360, 38_000],
  [1280, 27_000],
  [1920, 26_000],
] as const)
  t.test(`the reference can be read, ${width} pixels wide`, async (t) => {
    const { tab, close } = await open({ viewport: { width, height: 900 } })
    for (const page of ['cert-service', 'forward-auth', 'errors', 'command-line']) {
      await tab.goto(`${origin()}docs/reference/${page}.html`)
      await tab.locator('h1').waitFor()
      const texts = (await tab.evaluate(TEXTS)) as Texts
      t.ok(texts.count > 300, `${page} has ${texts.count} texts`)
      t.strictSame(texts.hidden, [], `${page}: all of them are there without scrolling sideways`)
      t.ok(texts.width <= width, `${page} does not scroll sideways`)
      t.ok(texts.height <= height, `${page} is ${texts.height} pixels high`)
    }
    await close()
  })

t.test('a text that is cut off, or outside of the window, is found', async (t) => {
  const { tab, close } = await open({ viewport: { width: 360, height: 900 } })
  await tab.setContent(`<div class="vp-doc"><p>here</p><p style="margin-left: 350px; white-space: nowrap">outside</p>
    <div style="overflow-x: auto"><table><tr><td style="min-width: 340px">key</td><td>cut off</td></tr></table></div></div>`)
  const texts = (await tab.evaluate(TEXTS)) as Texts
  t.match(texts, { count: 4, hidden: ['outside', 'cut off'] })
  await close()
})

for (const [colorScheme, width] of [
  ['light', 360],
  ['dark', 1280],
] as const)
  t.test(`${colorScheme}, ${width} pixels wide: every kind of page is sound`, async (t) => {
    const { tab, said, close } = await open({ colorScheme, viewport: { width, height: 900 } })
    for (const file of KINDS) {
      await tab.goto(`${origin()}${file}`)
      await tab.locator('h1').waitFor()
      const scrolled = (await tab.evaluate('document.documentElement.scrollWidth')) as number
      t.ok(scrolled <= width, `${file} has nothing to scroll sideways`)
      t.strictSame(await violations(tab), [], `${file} has nothing for axe to find`)
    }
    await tab.goto(`${origin()}docs/caddy.html`)
    await tab.locator('.DocSearch-Button').click()
    await tab.getByRole('combobox').fill('back-channel')
    await tab.getByRole('option').first().waitFor()
    t.strictSame(await violations(tab), [], 'nor in the search')
    await tab.keyboard.press('Enter')
    await tab.waitForURL(/docs\/.*#/)
    t.strictSame(said, [], 'the console is empty, and all is from here')
    await close()
  })

t.test('without scripts: the texts, the list of pages, and the colours', async (t) => {
  for (const width of [360, 1280]) {
    const viewport = { width, height: 900 }
    const { tab, close } = await open({ javaScriptEnabled: false, colorScheme: 'dark', viewport })
    await tab.goto(`${origin()}docs/traefik.html`)
    await tab.getByRole('heading', { level: 1, name: 'Behind Traefik' }).waitFor()
    t.ok(await tab.locator('.vp-code').first().isVisible())
    t.notOk(await tab.locator('.DocSearch-Button').isVisible(), 'nothing that does nothing')
    if (width === 360) await tab.getByRole('link', { name: 'All pages' }).first().click()
    await tab.getByRole('link', { name: 'Keycloak' }).first().click()
    t.match(tab.url(), /docs\/providers\/keycloak\.html$/)
    await tab.goto(`${origin()}nothing.html`)
    await tab.getByRole('link', { name: 'All pages' }).first().click()
    await tab.getByRole('heading', { level: 1, name: 'Documentation' }).waitFor()
    await tab.goto(origin())
    const diagrams = await tab.locator('.diagram svg').count()
    if (diagrams > 0) t.match(await tab.locator('.diagram svg').innerHTML(), 'forward-auth')
    await close()
  }
})
