import realGetJwks from 'get-jwks'
import t, { type Test } from 'tap'
import type { IssuerKeys } from '../src/oidc/issuer-keys.ts'
import { caught, fakeIssuer, frozenClock, ISSUER, issue, signingKey, silent } from './kit.ts'

type GetJwk = (question: { domain: string; kid: string; alg: string }) => Promise<unknown>

const key = signingKey('ES256', 'key')
const other = signingKey('ES256', 'key')

/** The keys of an issuer whose get-jwks answers with `stub`, given what the real one does. */
async function setup(t: Test, stub: (getJwk: GetJwk) => GetJwk) {
  const issuer = fakeIssuer({ keys: [key.jwk] })
  const module = await t.mockImport<typeof import('../src/oidc/issuer-keys.ts')>(
    '../src/oidc/issuer-keys.ts',
    {
      'get-jwks': (options: object) => {
        const real = realGetJwks(options)
        return { ...real, getJwk: stub(real.getJwk as GetJwk) }
      },
    },
  )
  const deps = { dispatcher: issuer.dispatcher, elapsed: frozenClock().elapsed, log: silent }
  const keys: IssuerKeys = new module.IssuerKeys({ issuerUrl: ISSUER }, deps)
  const find = async (kid: string | undefined = 'key') => keys.find({ kid, alg: 'ES256' })
  return { issuer, find }
}

t.test('get-jwks is asked with the key id and the algorithm of the token', async (t) => {
  const questions: unknown[] = []
  const { issuer, find } = await setup(t, (getJwk) => (question) => {
    questions.push(question)
    return getJwk(question)
  })
  const found = await find()
  t.doesNotThrow(() => found.key.verify(issue(key)))
  t.equal(issuer.readings(), 1)
  for (const question of questions)
    t.strictSame(question, { domain: ISSUER, kid: 'key', alg: 'ES256' })
  t.ok(questions.length > 0)
})

t.test('without get-jwks no token is verified', async (t) => {
  const silenced = await setup(t, () => async () => undefined)
  t.match(await caught(silenced.find), { code: 'AUTH_ISSUER_UNREACHABLE' })
  t.equal(silenced.issuer.readings(), 0, 'nothing else requests the keys')

  const failing = await setup(t, () => async () => {
    throw new Error('no key')
  })
  t.match(await caught(failing.find), { code: 'AUTH_ISSUER_UNREACHABLE' })

  const empty = await setup(t, (getJwk) => async (question) => void (await getJwk(question)))
  t.match(await caught(empty.find), { code: 'AUTH_ISSUER_INVALID' })
})

t.test('a token is verified with the key that get-jwks gives', async (t) => {
  const { find } = await setup(t, (getJwk) => async (question) => {
    await getJwk(question)
    return other.jwk
  })
  const found = await find()
  t.throws(() => found.key.verify(issue(key)))
  t.doesNotThrow(() => found.key.verify(issue(other)))
})
