import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { BoundedFetch, FetchInit } from '@gatehouse/net'
import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { keepCertificate } from '../certificate.ts'

const HOUR = 3_600_000

t.test('keepCertificate asks again each hour, also after a failure', async (t) => {
  const file = join(t.testdir(), 'app.pem')
  const answers = ['first', new Error('down'), 'second']
  const asked: [url: unknown, init: FetchInit | undefined][] = []
  const clock = manualClock()
  const logged = Promise.withResolvers<object>()

  const fetch = async (url: unknown, init?: FetchInit) => {
    asked.push([url, init])
    const answer = answers.shift()
    if (answer instanceof Error) throw answer
    return { status: 200, headers: {}, body: Buffer.from(answer ?? '') }
  }
  await keepCertificate(
    { url: 'https://certs.example', apiKey: 'key', domain: '*.app.example', file },
    {
      fetch: Object.assign(fetch, { close: async () => {} }) satisfies BoundedFetch,
      clock,
      log: { error: logged.resolve },
    },
  )
  t.equal(await readFile(file, 'utf8'), 'first')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.match(asked, [
    [
      'https://certs.example/api/certificate',
      {
        method: 'POST',
        headers: { authorization: 'APIKey key', accept: 'application/x-pem-file' },
        body: '{"domain":"*.app.example"}',
      },
    ],
  ])

  await clock.advance(HOUR)
  t.match(await logged.promise, { err: { message: 'down' } })
  t.equal(await readFile(file, 'utf8'), 'first', 'what there is stays')
  await clock.advance(HOUR)
  while ((await readFile(file, 'utf8')) !== 'second');
  t.equal(asked.length, 3)
})
