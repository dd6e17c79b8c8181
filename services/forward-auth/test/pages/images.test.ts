import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { accountPage } from '../../src/pages/account.ts'
import { type ImageKind, readImage } from '../../src/pages/images.ts'
import { refusedPage } from '../../src/pages/pages.ts'
import { ICO, JPEG, PNG, pngOf, SVG, WEBP } from './pictures.ts'
import { attribute, named, text } from './read.ts'
import { ada, PORTAL, portal, samples } from './samples.ts'

const IMAGES = `${PORTAL}/images/`

const FOLDER = testFolder(t)
const KINDS: readonly ImageKind[] = ['logo', 'favicon', 'icon']

function read(kind: ImageKind, content: string | Uint8Array) {
  // A name that says something else: only the content counts.
  const file = join(FOLDER, 'image.gif')
  writeFileSync(file, content)
  return readImage(kind, file)
}

/** The media type of an image, or its fault. */
function told(kind: ImageKind, content: string | Uint8Array): string {
  const answer = read(kind, content)
  return 'image' in answer ? answer.image.type : answer.fault
}

const NOT = {
  logo: 'names a file that is none of PNG, SVG, WebP, JPEG',
  favicon: 'names a file that is none of PNG, SVG, ICO',
  icon: 'names a file that is none of PNG, SVG, WebP, JPEG',
}
const SVG_TYPE = 'image/svg+xml; charset=utf-8'

t.test('the format of an image is that of its content', async (t) => {
  const table: [why: string, content: string | Buffer, types: Record<ImageKind, string>][] = [
    ['PNG', PNG, { logo: 'image/png', favicon: 'image/png', icon: 'image/png' }],
    ['JPEG', JPEG, { logo: 'image/jpeg', favicon: NOT.favicon, icon: 'image/jpeg' }],
    ['WebP', WEBP, { logo: 'image/webp', favicon: NOT.favicon, icon: 'image/webp' }],
    ['ICO', ICO, { logo: NOT.logo, favicon: 'image/x-icon', icon: NOT.icon }],
    ['SVG', SVG, { logo: SVG_TYPE, favicon: SVG_TYPE, icon: SVG_TYPE }],
    ['GIF', 'GIF89a\x01\0\x01\0', NOT],
    ['a page', Buffer.from('\0<html>'), NOT],
    ['nothing', '', NOT],
    ['a PNG that ends after its signature', PNG.subarray(0, 20), NOT],
    ['a PNG without width', Buffer.concat([PNG.subarray(0, 16), Buffer.alloc(40)]), NOT],
    ['half a WebP', WEBP.subarray(0, 20), NOT],
    ['an ICO whose image is not there', ICO.subarray(0, 40), NOT],
    ['an ICO without images', Buffer.from([0, 0, 1, 0, 0, 0]), NOT],
  ]
  for (const [why, content, types] of table)
    for (const kind of KINDS) t.equal(told(kind, content), types[kind], `${why} as ${kind}`)
})

t.test('an SVG is one that browsers show', async (t) => {
  const named = (fault: string) => new RegExp(`^names an SVG file ${fault}`)
  const root = named('whose root is not <svg xmlns="http://www.w3.org/2000/svg">$')
  const malformed = named(String.raw`that is not well-formed XML \(`)
  const table: [why: string, content: string | Buffer, told: RegExp | string][] = [
    ['with a declaration', `<?xml version="1.0"?>\n<!-- logo -->${SVG}`, SVG_TYPE],
    ['with a byte order mark', `\ufeff${SVG}`, SVG_TYPE],
    ['with a DOCTYPE', `<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd">${SVG}`, SVG_TYPE],
    ['with a prefix', '<s:svg xmlns:s="http://www.w3.org/2000/svg"/>', SVG_TYPE],
    ['without namespace', '<svg/>', root],
    ['another root', '<html xmlns="http://www.w3.org/1999/xhtml"/>', root],
    ['an SVG inside', `<x>${SVG}</x>`, root],
    ['no end', SVG.slice(0, -3), malformed],
    ['two roots', `${SVG}${SVG}`, malformed],
    ['HTML', '<!doctype html><p>Hello', malformed],
    [
      'an entity',
      `<!DOCTYPE svg [<!ENTITY a "b">]>${SVG.replace('</svg>', '&a;</svg>')}`,
      malformed,
    ],
    [
      'Latin-1',
      Buffer.from(SVG.replace('<rect', '<!--é--><rect'), 'latin1'),
      named('that is not UTF-8$'),
    ],
  ]
  for (const [why, content, expected] of table) t.match(told('logo', content), expected, why)
  t.equal(told('logo', Buffer.from(`\ufeff${SVG}`, 'utf16le')), NOT.logo, 'UTF-16')
})

t.test('an image is of a size that pages load quickly', async (t) => {
  const sized = (size: number) => Buffer.concat([PNG, Buffer.alloc(size - PNG.length)])
  for (const [kind, max] of [
    ['logo', 262_144],
    ['favicon', 65_536],
    ['icon', 65_536],
  ] as const) {
    t.equal(told(kind, sized(max)), 'image/png', `${kind} of ${max} bytes`)
    t.equal(told(kind, sized(max + 1)), `names a file of ${max + 1} bytes, with a limit of ${max}`)
  }
  t.match(readImage('logo', join(FOLDER, 'nothing')), {
    fault: 'names a file that does not exist (ENOENT)',
    absent: true,
  })
  t.match(readImage('logo', FOLDER), { fault: /^names a file that is a folder/, absent: false })
})

t.test('the name of an image is that of its content', async (t) => {
  const nameOf = (content: string | Buffer) => {
    const answer = read('logo', content)
    return 'image' in answer ? answer.image.name : answer.fault
  }
  t.match(nameOf(PNG), /^[0-9a-f]{16}\.png$/)
  t.match(nameOf(JPEG), /^[0-9a-f]{16}\.jpg$/)
  t.equal(nameOf(PNG), nameOf(Buffer.from(PNG)))
  t.not(nameOf(PNG), nameOf(pngOf(40, 11)))
})

t.test('bytes that are no image are refused, whatever they are', async () => {
  const SIGNATURE =
    /^(89504e470d0a1a0a|ffd8ff|52494646.{8}57454250565038(20|4c|58)|00000100|(efbbbf)?(09|0[a-d]|20|a0)*3c)/
  const starts = [PNG, JPEG, WEBP, ICO, Buffer.from(SVG)].flatMap((whole) => [
    whole.subarray(0, 4),
    whole.subarray(0, 16),
  ])
  const content = fc
    .tuple(fc.constantFrom(Buffer.alloc(0), ...starts), fc.uint8Array({ maxLength: 80 }))
    .map(([start, rest]) => Buffer.concat([start, rest]))
  fc.assert(
    fc.property(fc.constantFrom(...KINDS), content, (kind, bytes) => {
      const answer = read(kind, bytes)
      if ('fault' in answer) return /^names a(n SVG)? file /.test(answer.fault)
      return SIGNATURE.test(bytes.toString('hex')) && answer.image.bytes.equals(bytes)
    }),
    { numRuns: 1_000 },
  )
})

const logo = { name: 'aaaaaaaaaaaaaaaa.svg', type: SVG_TYPE, bytes: Buffer.from(SVG) }
const favicon = { name: 'bbbbbbbbbbbbbbbb.png', type: 'image/png', bytes: PNG }
/** But those that nobody sees, which fetch a cookie. */
const imagesIn = (html: string) =>
  named(html, 'img')
    .filter((image) => attribute(image, 'hidden') === undefined)
    .map((image) => [attribute(image, 'src'), attribute(image, 'alt')])
const iconOf = (html: string) => attribute(named(html, 'link')[0]!, 'href')

t.test('the logo takes the place of the gate and the title, and is read once', async (t) => {
  const pages = samples({ portal: { ...portal, logo, title: 'A & "B"' } })
  for (const [name, { html, policy }] of Object.entries(pages)) {
    const isBare = name === 'error-bare'
    const shown = isBare ? [] : [[`${IMAGES}${logo.name}`, 'A & "B"']]
    t.strictSame(imagesIn(html), shown, name)
    if (!isBare) t.equal(text(named(html, 'header')[0]!), '', `${name}: no second title`)
    t.match(iconOf(html), /^data:/, `${name}: its icon is the gate`)
    t.match(policy, isBare ? '; img-src data:; ' : `; img-src data: ${IMAGES}; `)
  }
})

t.test('the favicon is that of the portal', async (t) => {
  for (const [name, { html, policy }] of Object.entries(
    samples({ portal: { ...portal, favicon } }),
  )) {
    if (name === 'error-bare') continue
    t.equal(iconOf(html), `${IMAGES}${favicon.name}`, name)
    t.match(policy, `; img-src ${IMAGES}; `, `${name}: images are there and nowhere else`)
    t.strictSame(imagesIn(html), [])
  }
})

t.test('an app has its icon, which is no text', async (t) => {
  const visit = { portal, language: 'en', portalUrl: PORTAL, profile: ada } as const
  const url = new URL('https://wiki.example.com/')
  const apps = [
    { name: 'Wiki', url, icon: logo },
    { name: 'Plain', url },
  ]
  const page = accountPage({ ...visit, apps })
  t.strictSame(imagesIn(page.html), [[`${IMAGES}${logo.name}`, '']])
  const links = named(page.html, 'a').map(text)
  t.strictSame(links.slice(2, 4), ['Wikiwiki.example.com', 'PPlainwiki.example.com'])
  t.match(page.policy, `; img-src data: ${IMAGES}; `)
  const refused = refusedPage({ ...visit, switchHref: '/', requestId: 'abc' })
  t.match(refused.policy, '; img-src data:; ', 'a page without images allows none')
})
