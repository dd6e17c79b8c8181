import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import { createSites } from '../../src/sites.ts'
import { gateOf } from '../gate.ts'
import { type RequestHeaders, SHAPES } from '../shapes.ts'

const SITES = createSites([
  { domain: 'example.com', authOrigin: 'https://auth.example.com', basePath: '', scope: 'host' },
])
const gate = gateOf('main')

function request(sent: RequestHeaders, method: string, url: string) {
  const entries = Object.entries(sent)
  const headers: IncomingHttpHeaders = Object.fromEntries(
    entries.map(([name, value]) => [name.toLowerCase(), value]),
  )
  return { method, url, headers, rawHeaders: entries.flat() }
}

t.test('each proxy, as it asks', async (t) => {
  for (const { proxy, dialect, method, path, headers } of SHAPES) {
    const told = gate.read(dialect.source, request(headers, method, `/portals/main${path}`), SITES)
    const scheme = headers['X-Forwarded-Proto'] === 'wss' ? 'https' : told.scheme
    t.equal(told.url, `${scheme}://app.example.com/a/b?q=1`, proxy)
    t.equal(told.method, 'POST', `${proxy}: method`)
    t.equal(told.site.domain, 'example.com', `${proxy}: site`)
  }
})

t.test('names a required header that is missing or empty, and never guesses it', async (t) => {
  for (const { proxy, dialect, method, path, headers, needs } of SHAPES)
    for (const need of needs) {
      const names = Object.keys(headers)
      const others = names.filter((name) => name.toLowerCase() !== need)
      const without = Object.fromEntries(others.map((name) => [name, headers[name] ?? '']))
      const refused = {
        code: 'FWA_HEADER_INVALID',
        message: new RegExp(`${need} is missing`, 'i'),
      }
      const ask = (told: RequestHeaders) => () =>
        gate.read(dialect.source, request(told, method, `/portals/main${path}`), SITES)
      t.throws(ask(without), refused, `${proxy}: no ${need}`)
      t.throws(ask({ ...without, [need]: '' }), refused, `${proxy}: empty ${need}`)
    }
})
