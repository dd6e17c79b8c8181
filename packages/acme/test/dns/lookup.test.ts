import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { Ask } from '../../src/dns/exchange.ts'
import { Lookup, suffixes } from '../../src/dns/lookup.ts'
import { FLAG, type ResourceRecord } from '../../src/dns/message.ts'

const RESOLVER = '192.0.2.53'
const NS1 = '192.0.2.1'
const signal = new AbortController().signal

interface Answer {
  readonly answers?: readonly string[]
  readonly authorities?: readonly string[]
  readonly isAuthoritative?: boolean
}

function readLine(line: string): ResourceRecord {
  const [name = '', type = '', value = ''] = line.split(' ')
  return { name, type, value }
}

/** A lookup by what servers answer to `name TYPE`; with a resolver alone unless it is authoritative. */
function lookup(answer: (host: string, question: string) => Answer, authoritative = false) {
  const asked: string[] = []
  const timers = new Set<object>()
  const clock = manualClock()
  const ask: Ask = async ({ host }, { name, type }) => {
    asked.push(`${host} ${name} ${type}`)
    const { answers = [], authorities = [], isAuthoritative } = answer(host, `${name} ${type}`)
    return {
      id: 0,
      flags: FLAG.response | (isAuthoritative ? FLAG.authoritative : 0),
      questions: [{ name, type }],
      answers: answers.map(readLine),
      authorities: authorities.map(readLine),
      additionals: [],
    }
  }
  const made = new Lookup({
    ask,
    resolvers: [{ host: RESOLVER, port: 53 }],
    port: 53,
    authoritative,
    clock: {
      now: clock.now,
      setTimer(fn, ms) {
        const timer = clock.setTimer(fn, ms)
        timers.add(timer)
        return {
          cancel: () => {
            timers.delete(timer)
            timer.cancel()
          },
        }
      },
    },
  })
  return { lookup: made, asked, timers }
}

t.test('follows eight CNAME records, and no more', async (t) => {
  for (const [records, target] of [
    [0, 'c0.test'],
    [8, 'c8.test'],
    [9, undefined],
  ] as const) {
    const { lookup: chain, timers } = lookup((_, question) => {
      const number = Number(/\d+/.exec(question)?.[0])
      return { answers: number < records ? [`c${number}.test CNAME c${number + 1}.test`] : [] }
    })
    const following = chain.follow('c0.test', signal)
    if (target) t.equal((await following).name, target, `${records} records`)
    else await t.rejects(following, { code: 'ACME_DNS_LOOKUP', message: /in a circle or too far/ })
    t.equal(timers.size, 0, 'no timer stays')
  }
})

t.test('leaves a circle at once', async (t) => {
  const { lookup: circle, asked } = lookup((_, question) => ({
    answers: question.startsWith('a.') ? ['a.test CNAME b.test'] : ['b.test CNAME a.test'],
  }))
  await t.rejects(circle.follow('a.test', signal), { code: 'ACME_DNS_LOOKUP' })
  t.equal(asked.length, 2)
})

t.test('a record of another name says nothing', async (t) => {
  const { lookup: confused } = lookup(() => ({ answers: ['other.test CNAME evil.test'] }))
  t.equal((await confused.follow('a.test', signal)).name, 'a.test')
})

/** What a resolver knows of the zone `example.test`. */
const zone = (question: string): Answer => ({
  answers: [
    'example.test SOA x',
    'example.test NS ns1.example.test',
    `ns1.example.test A ${NS1}`,
    `ns2.example.test A ${NS1}`,
  ].filter((line) => line.startsWith(question)),
})

t.test('follows a referral to a zone below, and to no other', async (t) => {
  const rows: [referral: string, asked: number][] = [
    ['app.example.test', 2],
    ['example.test', 1],
    ['test', 1],
    ['other.test', 1],
    ['xapp.example.test', 1],
  ]
  for (const [referral, count] of rows) {
    let isReferred = false
    const { lookup: parent, asked } = lookup((host, question) => {
      if (host === RESOLVER) return zone(question)
      const answer = isReferred && count > 1 ? { isAuthoritative: true } : {}
      isReferred = true
      return { ...answer, authorities: [`${referral} NS ns2.example.test`] }
    }, true)
    const { servers } = await parent.follow('a.app.example.test', signal)
    const name = count > 1 ? 'ns2.example.test' : 'ns1.example.test'
    t.strictSame(
      servers.map((server) => server.name),
      [name],
      referral,
    )
    t.equal(asked.filter((line) => line.startsWith(NS1)).length, count)
  }
})

t.test('a name and its ancestors', async (t) => {
  t.strictSame(suffixes('a.b.test'), ['a.b.test', 'b.test', 'test'])
})
