import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AppName, createApp } from '../src/index.ts'

const ALICE = {
  'x-forwarded-user': 'alice',
  'x-forwarded-displayname': 'Alice Ard%C3%A9n',
  'remote-email': 'alice@example.com',
  'remote-groups': 'admin,staff',
  'x-gatehouse-assertion': 'the-token',
  cookie: 'the-cookie=1',
  authorization: 'Bearer the-bearer',
}

async function open(t: Test, name: AppName, authority: string, headers: Record<string, string>) {
  const server = createServer(createApp(name, authority)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const answer = await fetch(`http://127.0.0.1:${port}/any/where`, { headers })
  return { answer, html: await answer.text() }
}

t.test('who is asking, and what of that came in which header', async (t) => {
  const { answer, html } = await open(t, 'app', 'gatehouse.localhost:8443', ALICE)
  t.match(html, 'Hello, <bdi>Alice Ardén</bdi>')
  t.match(html, 'alice@example.com · admin, staff')
  t.match(html, '<dt>x-forwarded-displayname</dt><dd>Alice Ard%C3%A9n</dd>')
  for (const secret of ['the-token', 'the-cookie', 'the-bearer']) t.notMatch(html, secret)
  t.match(answer.headers.get('cache-control'), 'no-store')
  const [, style = ''] = /<style>(.*?)<\/style>/s.exec(html) ?? []
  const hash = createHash('sha256').update(style).digest('base64')
  t.match(answer.headers.get('content-security-policy'), `style-src 'sha256-${hash}'`)
})

t.test('where the links lead', async (t) => {
  const hrefs = (html: string) =>
    Array.from(html.matchAll(/<a href="([^"]+)"/g), ([, href]) => href)
  const { html } = await open(t, 'app', 'gatehouse.localhost:8443', {})
  t.strictSame(hrefs(html), [
    'https://admin.gatehouse.localhost:8443/',
    'https://auth.gatehouse.localhost:8443/portals/main/profile',
    'https://auth.gatehouse.localhost:8443/portals/main/logout?rd=https%3A%2F%2Fapp.gatehouse.localhost%3A8443%2F',
  ])
  const usual = await open(t, 'admin', 'gatehouse.localhost:443', {})
  t.equal(hrefs(usual.html)[0], 'https://app.gatehouse.localhost/')
})

t.test('names are text', async (t) => {
  const NAMES: [sent: string, shown: string][] = [
    ['%3Cscript%3E&"', '&lt;script&gt;&amp;&quot;'],
    ['100%', '100%'],
    ['', 'Nobody'],
  ]
  for (const [sent, shown] of NAMES) {
    const { html } = await open(t, 'app', 'x.localhost', { 'x-forwarded-displayname': sent })
    t.match(html, `Hello, <bdi>${shown}</bdi>`)
  }
})

t.test('the program says which apps there are', async (t) => {
  const main = join(import.meta.dirname, '../src/main.ts')
  for (const args of [[], ['constructor']]) {
    const { status, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' })
    t.match({ status, stderr }, { status: 2, stderr: 'Which app? One of: app, admin\n' })
  }
})
