import type { Caller } from '@gatehouse/auth-core'
import { parseClientName, parseName } from '@gatehouse/pki'
import t from 'tap'
import { type PolicyRule, RIGHTS, type Right } from '../../src/config/auth.ts'
import {
  type CertificateCaller,
  certificateCallersOf,
} from '../../src/config/certificate-callers.ts'
import { createPolicy, isOperator, type Person, type Principal } from '../../src/policy/rules.ts'

const AGENT = {
  name: 'agent',
  dns: 'agent.a.test',
  domains: ['*.a.test'],
  profile: 'client' as const,
}
const callers = certificateCallersOf({
  callers: [
    AGENT,
    { name: 'twin', dns: 'twin.a.test', domains: ['*'], profile: 'client' },
    { name: 'reader', uri: 'spiffe://a.test/reader', domains: ['*'], rights: ['read'] },
    { name: 'root', email: 'root@a.test', operator: true },
  ],
})
const of = (name: string) =>
  [...callers.values()].find(({ subject }) => subject === name) as CertificateCaller

const key = (domains?: string[]): Caller => ({
  method: 'psk',
  subject: 'ops',
  ...(domains && { domains }),
})
const token: Caller = { method: 'jwt', issuer: 'i', subject: 's', scopes: [], claims: {} }
const person = { provider: 'corp', id: '42', groups: ['ops'], claims: {} } as unknown as Person
const every = (more: object): PolicyRule => ({
  effect: 'allow',
  names: ['*'],
  rights: [...RIGHTS],
  profile: 'client',
  ...more,
})
const policy = createPolicy({
  certificateCallers: callers,
  keys: new Map(['ops', 'agent'].map((name) => [name, { profile: 'client' as const }])),
  rules: [every({ people: 'anyone' }), every({ issuer: 'i' })],
})
const may = (
  caller: Principal,
  right: Right,
  name: string,
  profile: 'server' | 'client' = 'server',
) => policy(caller, right, [parseClientName(name)], profile).allowed

t.test('a client certificate that makes a caller is for operators and that caller', async (t) => {
  const [own, others, root] = ['agent.a.test', 'twin.a.test', 'root@a.test']
  const cases: readonly (readonly [
    who: string,
    caller: Principal,
    name: string,
    isFor: boolean,
  ])[] = [
    ['an operator by key', key(), own, true],
    ['an operator by certificate', of('root'), own, true],
    ['the operator itself', of('root'), root, true],
    ['the caller itself', of('agent'), own, true],
    ['another caller', of('agent'), others, false],
    ['another caller who may have every name', of('twin'), own, false],
    ['no caller for an operator', of('twin'), root, false],
    ['a key of that name', { ...key(['*']), subject: 'agent' } as Caller, own, false],
    ['a key for the name', key([own]), own, false],
    ['a key for every name', key(['*']), own, false],
    ['a token, of whom all have every name', token, own, false],
    ['a person with every right', person, own, false],
    ['a person, for an e-mail address', person, root, false],
    ['the operator, for a name of nobody', key(), 'other.a.test', true],
    ['anybody, for a name of nobody', key(['*']), 'other.a.test', true],
    ['the caller, for a name of nobody', of('agent'), 'other.a.test', true],
    ['the caller beyond its domains', of('agent'), 'other.b.test', false],
  ]
  for (const [who, caller, name, isFor] of cases) {
    t.equal(may(caller, 'issue', name, 'client'), isFor, `${who}: ${name}`)
    t.equal(may(caller, 'renew', name, 'client'), isFor, `${who} renews ${name}`)
  }
  const servers = createPolicy({ certificateCallers: callers })
  const decision = servers(key(['*']), 'issue', [parseName(own)], 'server')
  t.equal(decision.allowed, true, 'a server certificate makes no caller')
  t.equal(may(key(['*']), 'read', own, 'client'), true)
  t.equal(may(person, 'revoke', own, 'client'), true)
  const all = policy(key(['*']), 'issue', ['x.a.test', own].map(parseName), 'client')
  t.match(all, { allowed: false, name: { text: own }, reason: /only an operator or that caller/ })
})

t.test('certificates have the rights and names of their row', async (t) => {
  const cases: readonly (readonly [name: string, right: Right, on: string, allowed: boolean])[] = [
    ['reader', 'read', 'x.a.test', true],
    ['agent', 'issue', 'x.a.test', false],
    ['agent', 'revoke', 'x.a.test', false],
    ['reader', 'read', 'x.b.test', true],
    ['reader', 'issue', 'x.b.test', false],
    ['root', 'delete', 'x.b.test', true],
  ]
  for (const [name, right, on, allowed] of cases)
    t.equal(may(of(name), right, on), allowed, `${name} ${right} ${on}`)
  const denying = createPolicy({ rules: [{ effect: 'deny', names: ['*.b.test'] }] })
  t.equal(denying(of('root'), 'issue', [parseName('x.b.test')], 'server').allowed, false)
  const client = (name: string, right: Right, on: string) => may(of(name), right, on, 'client')
  t.equal(client('agent', 'issue', 'x.a.test'), true, 'of the profile of its row')
  t.equal(client('reader', 'read', 'x.b.test'), false, 'which is `server` by default')
  t.equal(client('reader', 'read', 'spiffe://a.test/reader'), true, 'and its own certificate')
  t.equal(client('reader', 'issue', 'spiffe://a.test/reader'), false, 'within its rights')
  t.strictSame(['agent', 'root'].map(of).map(isOperator), [false, true])
})
