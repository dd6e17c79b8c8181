import t from 'tap'
import { foldName, readOverrides } from '../src/header-names.ts'

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
