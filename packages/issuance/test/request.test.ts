import { type Name, parseName } from '@gatehouse/pki'
import t from 'tap'
import type { Issuer } from '../src/issuers/issuer.ts'
import { createIssuers } from '../src/request.ts'

/** An issuer that may sign these names. */
const issuer = (name: string, ...names: string[]) =>
  ({ name, permits: ({ text }: Name) => names.includes(text) }) as unknown as Issuer

t.test('the first issuer that may sign every name is taken, else the embedded CA', (t) => {
  const issuers = createIssuers(
    [issuer('one', 'a.test'), issuer('two', 'a.test', 'b.test'), issuer('three', 'b.test')],
    issuer('ca'),
  )
  for (const [names, expected] of [
    [['a.test'], 'one'],
    [['a.test', 'b.test'], 'two'],
    [['b.test'], 'two'],
    [['a.test', 'c.test'], 'ca'],
    [['c.test'], 'ca'],
  ] as const)
    t.equal(issuers.choose(names.map(parseName), 'server').name, expected, names.join())
  t.end()
})
