import { unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { ICO, JPEG, PNG, pngOf, SVG, WEBP } from '../pages/pictures.ts'
import { attribute, named } from '../pages/read.ts'
import { AUTH, MAIN } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_POLICY_UNKNOWN')

const TRAEFIK = SHAPES[0]!
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

/** A service with images of these contents. */
async function startWith(
  t: Parameters<typeof startApp>[0],
  files: Readonly<Record<string, string | Buffer>>,
  more = '',
) {
  const folder = testFolder(t as never)
  const path = (name: string) => join(folder, name)
  for (const [name, content] of Object.entries(files)) writeFileSync(path(name), content)
  const apps = Object.keys(files)
    .filter((name) => name.startsWith('app'))
    .map(
      (name, i) => `{ name: "${name}", url: "https://a${i}.example.com/", icon: "${path(name)}" }`,
    )
  const look = ['logo', 'favicon']
    .filter((key) => key in files)
    .map((key) => `, ${key}: "${path(key)}"`)
    .join('')
  const yaml = yamlOf(portalOf('main', `apps: [${apps}]${look}${more}`) + portalOf('other'))
  const test = await startApp(t, yaml)
  const page = async () =>
    test.app.inject({
      url: '/portals/main/account',
      headers: {
        ...BROWSER,
        host: 'auth.example.com',
        cookie: await test.signIn('main', {}, { host: 'auth.example.com' }),
      },
    })
  return { ...test, path, yaml, page }
}

const sourcesIn = (html: string) => named(html, 'img').map((each) => attribute(each, 'src') ?? '')
const pathOf = (url: string | undefined) => new URL(url ?? '').pathname

t.test('serves what a page shows, as what it is', async (t) => {
  const { app, page } = await startWith(t, {
    logo: SVG,
    favicon: ICO,
    app1: PNG,
    app2: WEBP,
    app3: JPEG,
  })
  const { body, headers } = await page()
  t.match(headers['content-security-policy'], `; img-src ${MAIN}/images/; `)
  const icon = attribute(named(body, 'link')[0]!, 'href') ?? ''
  const expected: [type: string, content: string | Buffer][] = [
    ['image/svg+xml; charset=utf-8', SVG],
    ['image/png', PNG],
    ['image/webp', WEBP],
    ['image/jpeg', JPEG],
    ['image/x-icon', ICO],
  ]
  const urls = [...sourcesIn(body), icon]
  t.equal(urls.length, expected.length)
  for (const [i, [type, content]] of expected.entries()) {
    const url = pathOf(urls[i])
    const image = await app.inject({ url, headers: { host: 'auth.example.com' } })
    t.match(image, {
      statusCode: 200,
      headers: {
        'content-type': type,
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
        'cache-control': 'public, max-age=31536000, immutable',
      },
    })
    t.ok(image.rawPayload.equals(Buffer.from(content)), `${type}: the file`)
    t.notOk('set-cookie' in image.headers)

    const tag = String(image.headers.etag)
    t.match(tag, /^"[0-9a-f]{16}\.\w+"$/)
    for (const known of [tag, `W/${tag}`, `"x", ${tag}`]) {
      const again = await app.inject({ url, headers: { 'if-none-match': known } })
      t.match(again, { statusCode: 304, body: '', headers: { etag: tag } }, known)
    }
    const other = await app.inject({ url, headers: { 'if-none-match': '"x"' } })
    t.equal(other.statusCode, 200)
    const head = await app.inject({ method: 'HEAD', url })
    t.match(head, { statusCode: 200, body: '', headers: { etag: tag, 'content-type': type } })
    t.equal((await app.inject(url.replace('/main/', '/other/'))).statusCode, 404, 'of its portal')
  }
})

t.test('what is no image of the portal is not found, and not kept', async (t) => {
  const { app } = await startWith(t, { logo: SVG })
  for (const url of [
    '/portals/main/images/0000000000000000.svg',
    '/portals/main/images/logo',
    '/portals/main/images/..%2f..%2fconfig.yaml',
    '/portals/main/images/constructor',
    '/portals/main/images/',
    '/portals/none/images/0000000000000000.svg',
  ]) {
    const answer = await app.inject(url)
    t.equal(answer.statusCode, 404, url)
    t.notMatch(answer.headers['cache-control'] ?? '', /immutable|public/)
  }
})

t.test('pages that a check answers with name the image at the sign-in host', async (t) => {
  const { check, signIn } = await startWith(
    t,
    { logo: SVG, favicon: PNG },
    ', allow: { groups: [x] }',
  )
  const sent = { ...BROWSER, 'X-Forwarded-Method': 'GET', cookie: await signIn('main') }
  const refused = await check(TRAEFIK, sent)
  t.equal(refused.statusCode, 403)
  t.match(sourcesIn(refused.body), [new RegExp(`^${AUTH}/portals/main/images/[0-9a-f]{16}\\.svg$`)])
  t.match(refused.headers['content-security-policy'], `; img-src ${MAIN}/images/; `)
  t.ok(Buffer.byteLength(refused.body) < 4_096)

  const error = await check(TRAEFIK, sent, { query: '?policy=none' })
  t.match(error.headers['content-type'], 'text/html')
  t.strictSame(sourcesIn(error.body), sourcesIn(refused.body), 'errors as well')
})

t.test(
  'an error at an unknown host has no image, since nobody knows its sign-in host',
  async (t) => {
    const { app } = await startWith(t, { logo: SVG })
    const headers = { ...BROWSER, host: 'elsewhere.test' }
    const { body, headers: sent } = await app.inject({ url: '/portals/main/signin', headers })
    t.match(body, 'FWA_HOST_UNKNOWN')
    t.strictSame(sourcesIn(body), [])
    t.match(sent['content-security-policy'], '; img-src data:; ')
  },
)

t.test('a reload takes up a changed file, or keeps everything', async (t) => {
  const { app, reload, path, yaml, page } = await startWith(t, { logo: SVG })
  const shown = async () => pathOf(sourcesIn((await page()).body)[0])
  const old = await shown()
  writeFileSync(path('logo'), pngOf(20, 20))
  t.equal(await shown(), old, 'a file is read when the configuration is')
  t.equal((await app.inject(old)).body, SVG)

  await reload(yaml)
  const changed = await shown()
  t.match(changed, /\.png$/)
  t.ok((await app.inject(changed)).rawPayload.equals(pngOf(20, 20)))
  t.equal((await app.inject(old)).statusCode, 404, 'and the old one is gone')

  for (const spoil of [
    () => writeFileSync(path('logo'), 'no image'),
    () => unlinkSync(path('logo')),
  ]) {
    spoil()
    await t.rejects(reload(yaml), {
      code: 'CONFIG_INVALID',
      message: '/portals/0/logo names a file',
    })
    t.equal(await shown(), changed)
    t.ok((await app.inject(changed)).rawPayload.equals(pngOf(20, 20)))
  }
})

t.test('browsers find an icon beside answers that are no page', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const icon = await app.inject('/favicon.ico')
  t.match(icon, {
    statusCode: 200,
    headers: {
      'content-type': 'image/svg+xml',
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    },
    body: /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"[^<]*><path [^<]*\/><\/svg>$/,
  })
})
