import { manualClock } from '@gatehouse/service-kit/testing'
import { errors } from 'jose'
import t from 'tap'
import { createKeyRenewal, type Server } from '../src/client.ts'

const SECOND = 1_000

t.test(
  'tokens with unknown keys cause one request for keys in 10 s, whatever the clock shows',
  async (t) => {
    let now = 1_000_000
    const clock = { ...manualClock(), now: () => now }
    const withKeys = createKeyRenewal(clock)
    let requests = 0
    const client = () => ({}) as Server['client']
    const server = {
      client: client(),
      algorithms: [],
      configure() {
        requests += 1
        return client()
      },
    }
    const present = async (ms: number) => {
      now += ms
      const attempt = () => Promise.reject(new errors.JWKSNoMatchingKey())
      await t.rejects(withKeys(server, attempt), { code: 'ERR_JWKS_NO_MATCHING_KEY' })
      return requests
    }
    t.equal(await present(0), 1)
    t.equal(await present(10 * SECOND - 1), 1)
    t.equal(await present(1), 2)
    t.equal(await present(-1), 3, 'a clock that was set back does not extend the pause')
  },
)
