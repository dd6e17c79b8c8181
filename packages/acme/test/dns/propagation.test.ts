import t from 'tap'
import type { NameServer } from '../../src/dns/lookup.ts'
import { FLAG, RCODE } from '../../src/dns/message.ts'
import { awaitPropagation } from '../../src/dns/propagation.ts'
import { hurriedClock } from '../scripted-ca/index.ts'

const signal = new AbortController().signal
const record = { name: 'x.test', type: 'TXT', value: 'text' }
const SERVFAIL = 2

/** A name server that has the record from its nth look on. */
function server(
  name: string,
  { from = 0, rcode = RCODE.NOERROR as number, isSilent = false } = {},
) {
  let looks = 0
  const asked: NameServer['ask'] = async (question) => {
    if (isSilent) throw new Error('silent')
    return {
      id: 0,
      flags: FLAG.response | rcode,
      questions: [question],
      answers: looks++ < from ? [] : [record],
      authorities: [],
      additionals: [],
    }
  }
  return { name, ask: asked }
}

t.test('waits until every server that answers has the text', async (t) => {
  const rows: [what: string, servers: NameServer[], timeoutMs: number, expected?: string][] = [
    ['at once', [server('a'), server('b')], 0],
    ['one is silent', [server('a'), server('b', { isSilent: true })], 0],
    ['at the last moment', [server('a', { from: 1 })], 250],
    ['too late', [server('a', { from: 1 })], 249, 'ACME_DNS_PROPAGATION'],
    ['one lacks it', [server('a'), server('b', { from: 99 })], 60_000, 'ACME_DNS_PROPAGATION'],
    ['with an error', [server('a', { rcode: SERVFAIL })], 60_000, 'ACME_DNS_PROPAGATION'],
    ['all are silent', [server('a', { isSilent: true })], 60_000, 'ACME_DNS_UNREACHABLE'],
    ['there is none', [], 60_000, 'ACME_DNS_UNREACHABLE'],
  ]
  for (const [what, servers, timeoutMs, expected] of rows) {
    const target = { name: record.name, servers }
    const options = { clock: hurriedClock(), timeoutMs, signal }
    const code = await awaitPropagation(target, 'text', options).catch((error) => error.code)
    t.equal(code, expected, what)
  }
})
