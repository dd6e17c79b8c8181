import t from 'tap'
import type { Caller } from '../../src/index.ts'
import { demandScopes } from '../../src/jwt/access-token.ts'

t.test('only an API key has every scope if nothing says which it has', async (t) => {
  const rows: [who: string, caller: object, missing: string | undefined][] = [
    ['a key', { method: 'psk' }, undefined],
    ['a key with one', { method: 'psk', scopes: ['a'] }, 'b'],
    ['a key with none', { method: 'psk', scopes: [] }, 'a b'],
    ['a token with both', { method: 'jwt', scopes: ['b', 'a'] }, undefined],
    ['a token with none', { method: 'jwt', scopes: [] }, 'a b'],
    ['a token whose scopes are not known', { method: 'jwt' }, 'a b'],
  ]
  for (const [who, caller, missing] of rows) {
    const demand = () => demandScopes(caller as Caller, ['a', 'b'])
    if (missing === undefined) t.doesNotThrow(demand, who)
    else
      t.throws(demand, { code: 'AUTH_SCOPE_MISSING', message: `Scope is missing: ${missing}` }, who)
  }
})
