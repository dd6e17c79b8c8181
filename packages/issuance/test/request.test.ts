import { type Name, parseName } from '@gatehouse/pki'
import t from 'tap'
import type { Issuer } from '../src/issuers/issuer.ts'
import { createIssuers, parseRequest } from '../src/request.ts'

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

t.test('with obstacles, a name of another issuer is described and not refused', async (t) => {
  const claimOf = ({ text }: Name) => (text === 'a.test' ? 'public' : undefined)
  const issuers = createIssuers([issuer('public')], issuer('ca', 'a.test', 'b.test'), claimOf)
  const parse = (domain: string, obstacles?: string[]) =>
    parseRequest({ domain }, issuers, () => Number.POSITIVE_INFINITY, obstacles)
  const obstacles: string[] = []
  t.equal(parse('b.test', obstacles).issuer.name, 'ca')
  t.strictSame(obstacles, [])
  t.equal(parse('a.test', obstacles).issuer.name, 'ca')
  t.match(obstacles, [/a\.test is in a domain of the issuer public/])
  t.throws(() => parse('a.test'), { code: 'CERT_NO_ISSUER', errors: [{ pointer: '/domain' }] })
})
