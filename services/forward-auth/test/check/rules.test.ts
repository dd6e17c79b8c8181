import { parseHost } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import { createPolicy } from '../../src/check/policy.ts'
import {
  createRules,
  type RuleConfig,
  readPath,
  requirementFor,
  shadowedRules,
} from '../../src/check/rules.ts'
import { isAdminToSome, target } from './paths.ts'

const policies = new Map(
  ['staff', 'admin', 'ops'].map((name) => [name, createPolicy(name, `Group("${name}")`)]),
)

interface Sent {
  readonly host?: string
  readonly target?: string
  readonly method?: string
  readonly from?: string | undefined
  readonly overrides?: boolean
}

/** What the rules demand of a request, in words. */
function demandOf(rules: readonly RuleConfig[], sent: Sent): string {
  const { host = 'app.example.com', target = '/', method = 'GET', overrides = false } = sent
  const from = 'from' in sent ? sent.from : '192.0.2.7'
  const { isOpen, policies: demanded } = requirementFor(createRules(rules, policies), {
    host: parseHost(host)!,
    path: readPath(target),
    method,
    overridesMethod: overrides,
    clientIp: () => from,
  })
  return isOpen ? 'anyone' : demanded.map(({ name }) => name).join('+') || 'signedIn'
}

t.test('the first rule that fits decides', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/healthz', '/hooks/*'], methods: ['GET', 'POST'], require: 'anyone' },
    { hosts: ['admin.example.com'], require: ['staff', 'admin'] },
    { hosts: ['*.internal.example.com'], from: ['10.0.0.0/8', 'fd00::/8'], require: 'anyone' },
    { paths: ['/admin/*'], require: 'admin' },
    { paths: ['/projects/*/secrets'], methods: ['GET', 'PUT'], require: 'ops' },
    { methods: ['DELETE'], require: 'ops' },
    { paths: ['/'], require: 'signedIn' },
  ]
  const rows: [demand: string, sent: Sent][] = [
    ['anyone', { target: '/healthz' }],
    ['anyone', { target: '/healthz/' }],
    ['anyone', { target: '/healthz?verbose=1' }],
    ['anyone', { target: '/healthz', host: 'admin.example.com' }],
    ['anyone', { target: '/healthz', method: 'HEAD' }],
    ['anyone', { target: '/hooks/github/7', method: 'POST' }],
    ['anyone', { target: '/hooks' }],
    ['ops', { target: '/hooks/github', method: 'DELETE' }],
    ['signedIn', { target: '/healthz/more' }],
    ['signedIn', { target: '/hooksx' }],
    ['staff+admin', { host: 'admin.example.com' }],
    ['staff+admin', { host: 'admin.example.com', target: '/admin/x' }],
    ['signedIn', { host: 'x.admin.example.com' }],
    ['anyone', { host: 'a.internal.example.com', from: '10.1.2.3' }],
    ['anyone', { host: 'a.b.internal.example.com', from: 'fd00::1' }],
    ['signedIn', { host: 'a.internal.example.com', from: '11.1.2.3' }],
    ['signedIn', { host: 'internal.example.com', from: '10.1.2.3' }],
    ['signedIn', { host: 'a.internal.example.com', from: undefined }],
    ['admin', { target: '/admin' }],
    ['admin', { target: '/admin/' }],
    ['admin', { target: '/admin/users' }],
    ['admin', { target: '/%61dmin/users' }],
    ['ops', { target: '/projects/x/secrets' }],
    ['signedIn', { target: '/projects/x/y/secrets' }],
    ['signedIn', { target: '/projects/secrets' }],
    ['ops', { target: '/x', method: 'DELETE' }],
    ['signedIn', { target: '/' }],
    ['signedIn', { target: '/else' }],
  ]
  for (const [demand, sent] of rows) t.equal(demandOf(rules, sent), demand, JSON.stringify(sent))
  t.equal(demandOf([], {}), 'signedIn', 'without rules')
})

t.test('what may fit opens nothing, and demands all that it may demand', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/public/*'], require: 'anyone' },
    { paths: ['/admin/*'], require: 'admin' },
    { paths: ['/ops/*'], methods: ['POST', 'DELETE'], require: 'ops' },
    { from: ['10.0.0.0/8'], paths: ['/lan/*'], require: 'staff' },
    { require: 'anyone' },
  ]
  const rows: [demand: string, sent: Sent, why: string][] = [
    ['anyone', { target: '/public/x' }, 'a normal path'],
    ['admin', { target: '/public/..%2fadmin' }, 'an encoded slash'],
    ['admin', { target: '/public/%2e%2e/admin' }, 'dot segments'],
    ['admin', { target: '/public//x' }, 'an empty segment'],
    ['admin', { target: '/ADMIN/x' }, 'another case'],
    ['anyone', { target: '/PUBLIC/x' }, 'another case of an open path, which the last rule opens'],
    ['admin+ops', { target: '/x//y', method: 'POST' }, 'several rules'],
    ['ops', { target: '/ops/x', method: 'POST' }, 'a listed method'],
    ['anyone', { target: '/ops/x' }, 'another method'],
    ['ops', { target: '/ops/x', overrides: true }, 'a method that a header overrides'],
    ['ops', { target: '/ops/x', method: 'post' }, 'a method in lower case'],
    ['staff', { target: '/lan/x', from: undefined }, 'an address that is not known'],
    ['admin+staff', { target: '/lan//x', from: undefined }, 'neither'],
    ['anyone', { target: '/lan/x', from: '192.0.2.7' }, 'an address elsewhere'],
  ]
  for (const [demand, sent, why] of rows) t.equal(demandOf(rules, sent), demand, why)
})

t.test('paths that apps may see in another way are not read', async (t) => {
  const read: [target: string, segments: string[]][] = [
    ['/', []],
    ['/a/b', ['a', 'b']],
    ['/a/b/', ['a', 'b']],
    ['/a%20b/%C3%A4', ['a b', 'ä']],
    ['/%61', ['a']],
    ['/.well-known/x', ['.well-known', 'x']],
    ['/a.b/..c/...d', ['a.b', '..c', '...d']],
    ['/a?b=//../;%2F', ['a']],
    ["/~a!$&'()*+,=:@b", ["~a!$&'()*+,=:@b"]],
  ]
  for (const [target, segments] of read) t.strictSame(readPath(target)?.segments, segments, target)
  const classes: Readonly<Record<string, readonly string[]>> = {
    'dot segments': ['/a/../b', '/./a', '/a/..', '/%2e%2e/a', '/a/%2E', '/..../a', '/a/.%20/b'],
    'empty segments': ['/a//b', '/a//', '/a/%20/b'],
    'encoded slashes': ['/a%2Fb', '/a%2fb', '/%2f', '/a%5Cb', '/a%5c..%5cb'],
    'path parameters': ['/a;b', '/a;jsessionid=1/b', '/a%3Bb', '/..;/a'],
    'encoded delimiters': ['/a%3Fb', '/a%23b'],
    'double encodings': ['/%252e%252e/a', '/a%25', '/a%252Fb'],
    'invalid encodings': ['/%', '/%2', '/%zz', '/%u002e', '/%ff', '/%e4'],
    'overlong encodings': ['/%c0%ae%c0%ae/a', '/%c0%af', '/%e0%80%af', '/%f0%80%80%af'],
    'control characters': ['/a%00', '/a%0a', '/a%0d%0ab', '/%7f', '/a%E2%80%8B', '/a%E2%80%AE'],
    'characters that Unicode maps to others': ['/%EF%BC%8F', '/%EF%BC%8E%EF%BC%8E/a', '/%E2%91%A0'],
  }
  for (const [name, targets] of Object.entries(classes))
    for (const target of targets) t.equal(readPath(target), undefined, `${name}: ${target}`)
})

t.test('no path reaches an app as one that a rule guards, and is open by another', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/public/*'], require: 'anyone' },
    { paths: ['/admin/*'], require: 'admin' },
    { require: 'anyone' },
  ]
  let closed = 0
  fc.assert(
    fc.property(target, (path) => {
      const demand = demandOf(rules, { target: path })
      if (!isAdminToSome(path)) return true
      closed += 1
      return demand === 'admin'
    }),
    { numRuns: 20_000 },
  )
  t.ok(closed > 500, `${closed} paths reach it`)
})

t.test('a rule that is never reached, with the one before it', async (t) => {
  const shadowed: [later: RuleConfig, earlier: RuleConfig][] = [
    [{ paths: ['/a'], require: 'staff' }, { require: 'anyone' }],
    [
      { paths: ['/a/b'], require: 'staff' },
      { paths: ['/a/*'], require: 'anyone' },
    ],
    [
      { paths: ['/a/*'], require: 'staff' },
      { paths: ['/*'], require: 'anyone' },
    ],
    [
      { paths: ['/a/b/c'], require: 'staff' },
      { paths: ['/a/*/c'], require: 'anyone' },
    ],
    [
      { hosts: ['a.example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { hosts: ['*.a.example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { methods: ['HEAD'], require: 'staff' },
      { methods: ['GET'], require: 'ops' },
    ],
    [
      { from: ['10.1.0.0/16'], require: 'staff' },
      { from: ['10.0.0.0/8'], require: 'ops' },
    ],
  ]
  for (const [later, earlier] of shadowed) {
    t.strictSame(shadowedRules([earlier, later]), [{ index: 1, by: 0 }], JSON.stringify(later))
    t.strictSame(shadowedRules([later, earlier]), [], 'and not the other way round')
  }
  const reached: [later: RuleConfig, earlier: RuleConfig][] = [
    [{ require: 'staff' }, { paths: ['/a'], require: 'anyone' }],
    [
      { paths: ['/a/*'], require: 'staff' },
      { paths: ['/a'], require: 'anyone' },
    ],
    [
      { hosts: ['example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { from: ['10.0.0.0/8'], require: 'staff' },
      { from: ['10.0.0.0/16'], require: 'ops' },
    ],
    [
      { paths: ['/a'], require: 'staff' },
      { paths: ['/a'], methods: ['GET'], require: 'ops' },
    ],
  ]
  for (const [later, earlier] of reached)
    t.strictSame(shadowedRules([earlier, later]), [], JSON.stringify([earlier, later]))
})
