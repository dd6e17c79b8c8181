import t from 'tap'
import { challengesOf } from '../src/challenges.ts'
import { AuthError } from '../src/errors.ts'

const missing = new AuthError('AUTH_CREDENTIALS_MISSING')
const methods = ['psk', 'jwt'] as const

t.test('the challenges of a refusal', async (t) => {
  const cases: [what: string, error: AuthError, options: object, expected: string[]][] = [
    ['of each method', missing, { methods }, ['APIKey realm="api"', 'Bearer realm="api"']],
    ['in the order of the methods', missing, { methods: ['jwt'] }, ['Bearer realm="api"']],
    [
      'with a realm, quoted',
      missing,
      { methods: ['jwt'], realm: 'a "b" \\ c' },
      ['Bearer realm="a \\"b\\" \\\\ c"'],
    ],
    [
      'of a token, with its error',
      new AuthError('AUTH_TOKEN_EXPIRED'),
      { methods: ['jwt'] },
      ['Bearer realm="api", error="invalid_token", error_description="Access token has expired"'],
    ],
    [
      'of a scope, with the scopes',
      new AuthError('AUTH_SCOPE_MISSING', { scopes: ['a', 'b'] }),
      { methods: ['jwt'] },
      [
        'Bearer realm="api", error="insufficient_scope", error_description="A scope is missing", scope="a b"',
      ],
    ],
    [
      'of a resource (RFC 9728)',
      missing,
      {
        methods: ['jwt'],
        parameters: { scope: 'tools', resource_metadata: 'https://a.example/.well-known/x' },
      },
      ['Bearer realm="api", scope="tools", resource_metadata="https://a.example/.well-known/x"'],
    ],
    [
      'of a parameter that replaces one',
      new AuthError('AUTH_SCOPE_MISSING', { scopes: ['a'] }),
      { methods: ['jwt'], parameters: { scope: 'b' } },
      [
        'Bearer realm="api", error="insufficient_scope", error_description="A scope is missing", scope="b"',
      ],
    ],
    ['of an outage', new AuthError('AUTH_ISSUER_UNREACHABLE'), { methods }, []],
  ]
  for (const [what, error, options, expected] of cases)
    t.strictSame(challengesOf(error, options as Parameters<typeof challengesOf>[1]), expected, what)
})
