import t from 'tap'
import { certificateFault, codeOf, describeConnectionFault } from '../src/index.ts'

const coded = (code: string) => Object.assign(new Error('why'), { code })

t.test('the code of an error, or of the first of several addresses', async (t) => {
  const CASES: readonly [error: unknown, code: string][] = [
    [coded('ECONNREFUSED'), 'ECONNREFUSED'],
    [new AggregateError([coded('EHOSTUNREACH'), coded('ECONNREFUSED')]), 'EHOSTUNREACH'],
    [new AggregateError([]), ''],
    [new Error('why'), ''],
    [undefined, ''],
  ]
  for (const [error, code] of CASES) t.equal(codeOf(error), code)
})

t.test('what a code means', async (t) => {
  t.equal(describeConnectionFault('ENOTFOUND'), 'ENOTFOUND, DNS does not know its name')
  t.equal(describeConnectionFault('EWHATEVER'), 'EWHATEVER', 'it is said as it is')
  for (const code of ['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'HOSTNAME_MISMATCH'])
    t.match(certificateFault(code), /^its certificate /)
  t.equal(certificateFault('ECONNREFUSED'), undefined)
})
