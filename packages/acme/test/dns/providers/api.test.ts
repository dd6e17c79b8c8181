import type { BoundedFetch } from '@gatehouse/net'
import t from 'tap'
import { bearer } from '../../../src/dns/providers/api.ts'
import { instantClock, NOW, signal } from './stand-in.ts'

t.test('an access token is used again until a minute before its end', async (t) => {
  let now = NOW
  let tokens = 0
  const fetch = async () => ({
    status: 200,
    headers: {},
    body: Buffer.from(JSON.stringify({ access_token: `token-${++tokens}`, expires_in: 3_600 })),
  })
  const request = { name: 'tokens', endpoint: new URL('https://id.example/'), path: '/token' }
  const authorize = bearer(async () => request, {
    clock: { ...instantClock, now: () => now },
    fetch: fetch as unknown as BoundedFetch,
  })
  const rows: [seconds: number, token: string][] = [
    [0, 'token-1'],
    [3_539, 'token-1'],
    [3_540, 'token-2'],
    [3_541, 'token-2'],
  ]
  for (const [seconds, token] of rows) {
    now = NOW + seconds * 1_000
    const outgoing = { method: 'GET', headers: {}, signal } as const
    const headers = await authorize(new URL('https://api.example/'), outgoing)
    t.strictSame(headers, { authorization: `Bearer ${token}` }, `after ${seconds} s`)
  }
})
