import { printable } from '@gatehouse/service-kit/program'
import fc from 'fast-check'
import t from 'tap'
import { ClientError } from '../src/errors.ts'
import { connect } from '../src/service.ts'

const NOW = Date.UTC(2030, 0, 1)

t.test('whatever a server answers, it is an answer or an error with a code', async () => {
  const anything = fc.oneof(
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc
      .record({
        code: fc.string({ unit: 'binary' }),
        detail: fc.string({ unit: 'binary' }),
        id: fc.string(),
        status: fc.constantFrom('pending', 'failed', 'done', 7),
      })
      .map((value) => JSON.stringify(value)),
  )
  const status = fc.constantFrom(200, 202, 204, 304, 400, 404, 429, 500)
  const retryAfter = fc.oneof(
    fc.string(),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
  )
  await fc.assert(
    fc.asyncProperty(anything, status, retryAfter, async (text, code, after) => {
      const answer = { status: code, headers: { 'retry-after': after }, body: Buffer.from(text) }
      const fetch = Object.assign(async () => answer, { close: async () => {} })
      const credentials = { authorization: async () => 'APIKey x' }
      const service = connect({
        url: new URL('https://certs.test'),
        credentials,
        fetch,
        now: () => NOW,
        actionFor: () => undefined,
      })
      const asked = [
        service.obtain({ domain: 'a.test' }),
        service.find('a.test', '"x"'),
        service.order('7'),
        service.list().next(),
        service.failing().next(),
      ]
      for (const result of await Promise.allSettled(asked)) {
        if (result.status === 'fulfilled') continue
        const { code: found, message, retryAfterMs = 0 } = result.reason as ClientError
        if (!(result.reason instanceof ClientError)) throw result.reason
        if (!/^[A-Z][A-Z0-9_]+$/.test(found) || message !== printable(message)) throw result.reason
        if (!(retryAfterMs >= 0)) throw result.reason
      }
    }),
  )
})

t.test('only a token that is refused is replaced, and once', async (t) => {
  for (const [status, requests] of [
    [401, 2],
    [403, 1],
    [503, 1],
  ] as const) {
    let [asked, renewed] = [0, 0]
    const fetch = Object.assign(
      async () => {
        asked += 1
        return { status, headers: {}, body: Buffer.from('{}') }
      },
      { close: async () => {} },
    )
    const credentials = {
      authorization: async () => 'Bearer x',
      renew() {
        renewed += 1
        return true
      },
    }
    const url = new URL('https://certs.test')
    const parts = { url, credentials, fetch, now: () => NOW, actionFor: () => undefined }
    await t.rejects(connect(parts).order('7'), { code: 'CERT_CLIENT_REFUSED' })
    t.strictSame([asked, renewed], [requests, requests - 1], `${status}`)
  }
})
