import { AcmeError } from '@gatehouse/acme'
import fc from 'fast-check'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_', 'PKI_CA_EXPIRED', 'nearly `limits.perName.certificates`')

const LIMITED = { authorization: 'APIKey a-key-limited-to-names' }
const psk = {
  keys: [
    { name: 'all', key: KEY },
    { name: 'limited', key: 'a-key-limited-to-names', domains: ['*.test'] },
  ],
}

/** What may happen before or between requests. */
const event = fc.oneof(
  fc.record({
    what: fc.constant('ask' as const),
    name: fc.constantFrom('a.test', 'b.test', 'c.test', 'd.test'),
    others: fc.subarray(['e.test', 'f.test'], { minLength: 0 }),
    keyType: fc.constantFrom(undefined, 'p384'),
    isLimited: fc.boolean(),
  }),
  fc.record({
    what: fc.constant('wait' as const),
    ms: fc.constantFrom(5_000, 60_000, 3_600_000, 4 * DAY, 3_640 * DAY),
  }),
  fc.record({ what: fc.constant('fail' as const), isDown: fc.boolean() }),
)

const ask = {
  what: 'ask',
  name: 'a.test',
  others: [] as string[],
  keyType: undefined,
  isLimited: true,
} as const
const limited = (['a.test', 'b.test', 'c.test', 'd.test'] as const).map((name) => ({
  ...ask,
  name,
}))
const ended = [{ what: 'wait', ms: 3_640 * DAY } as const, ask]
const failed = [{ what: 'fail', isDown: true } as const, ask, ask]

t.test('property: a request succeeds exactly where its dry run sees no obstacle', async (t) => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 4, maxLength: 24 }), async (events) => {
      let isDown = false
      const perCaller = { names: 6, issuancesPerMinute: 2, burst: 3 }
      const limits = { perName: { certificates: 2 }, perCaller }
      const running = await start(
        t,
        { auth: { psk }, limits },
        {
          issuer: (ca) => ({
            ...ca.servers,
            issue: (request: Parameters<typeof ca.issue>[0]) => {
              if (isDown) throw new AcmeError('ACME_CAA', 'CAA forbids it')
              return ca.issue(request)
            },
          }),
        },
      )
      for (const one of events) {
        if (one.what === 'wait') running.clock.shift(one.ms)
        else if (one.what === 'fail') isDown = one.isDown
        else {
          const { name: domain, others: names, keyType, isLimited } = one
          const body = { domain, names, ...(keyType && { keyType }) }
          const headers = isLimited ? LIMITED : {}
          const ask = (query: string) =>
            running.call('POST', `/api/certificate${query}`, body, headers)
          const dry = await ask('?dryRun=true')
          const answer = await ask('')
          const code = answer.status === 200 ? 'issued' : answer.body.code
          seen.set(code, (seen.get(code) ?? 0) + 1)
          const isFree = dry.status === 200 && dry.body.obstacles.length === 0
          // What the issuer says only as it is asked is not known before.
          if (isFree && isDown && code === 'ACME_CAA') continue
          if (isFree !== (answer.status === 200))
            throw new Error(`${dry.text}\nand then ${answer.status} ${answer.text}`)
        }
      }
      await running.close()
    }),
    // Each refusal comes at least once.
    { numRuns: 25, examples: [[limited], [ended], [failed]] },
  )
  for (const code of ['issued', 'CERT_CALLER_LIMITED', 'PKI_CA_EXPIRED', 'ACME_CAA'])
    t.ok(seen.get(code), `${code}: ${seen.get(code)} times`)
})
