import t from 'tap'
import { createAliasGuard, foldName, readOverrides } from '../src/header-names.ts'

t.test('refuses aliases of the headers that are read or written', async (t) => {
  const refuse = createAliasGuard(['x-forwarded-user', 'x-forwarded-host', 'remote-user'])
  const aliases = [
    'X_Forwarded_User',
    'X.Forwarded.User',
    'x-forwarded_user',
    'X-Forwarded.Host',
    'REMOTE_USER',
    'remote.user',
    'X~Forwarded~User',
    "X!Forwarded'User",
    'X|Forwarded`Host',
  ]
  for (const alias of aliases)
    t.throws(() => refuse(['Accept', '*/*', alias, 'x']), { code: 'FWA_HEADER_ALIAS' }, alias)
  const plain = [
    'X-Forwarded-User',
    'a',
    'x_other_header__',
    'b',
    'My.Remote.User',
    'c',
    'a_b',
    'd',
  ]
  t.doesNotThrow(() => refuse(plain), 'the names themselves and unlike ones')
  t.doesNotThrow(() => refuse(['x_'.repeat(200), 'x']), 'a very long one')
})

t.test('reads names as servers behind CGI do', async (t) => {
  t.equal(foldName('X~Forwarded_User'), 'x-forwarded-user')
  const rows: readonly (readonly [name: string, method: boolean, path: boolean])[] = [
    ['X-HTTP-Method-Override', true, false],
    ['x_http_method_override', true, false],
    ['X.HTTP~Method', true, false],
    ['X-Method-Override', true, false],
    ['X-Original-URL', false, true],
    ['X_Rewrite.Url', false, true],
    ['Destination', false, true],
    ['X-Method', false, false],
  ]
  for (const [name, method, path] of rows)
    t.same(readOverrides({ accept: '*/*', [name]: 'x' }), { method, path }, name)
  t.same(readOverrides({ accept: 'Destination' }), { method: false, path: false }, 'a value')
})
