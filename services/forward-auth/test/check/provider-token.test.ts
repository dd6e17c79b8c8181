import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { arrive, start } from '../portal/kit.ts'

const APP = 'https://app.example.com/'
const OTHER = 'https://other.example.com/'
const HEADER = 'x-forwarded-access-token'
const MINUTE = 60_000

const yamlWith = (rest = '') =>
  yamlOf(portalOf('main', `providerToken: { hosts: [app.example.com]${rest} }`))

/** A JWT that ends at a time, in ms. */
function idTokenUntil(ms: number): string {
  const claims = Buffer.from(JSON.stringify({ exp: ms / 1_000 })).toString('base64url')
  return `e30.${claims}.c2ln`
}

t.test('the access token is for the hosts that are named, and for nobody else', async (t) => {
  const test = await start(t, { yaml: yamlWith() })
  const { corp, clock } = test
  const accessUntil = clock.now() + 5 * MINUTE
  corp.state.signedIn = { tokens: { refresh: 'r', access: 'token-of-ada', accessUntil } }
  const ada = test.visitor()
  const { answer } = await arrive(ada, corp, APP)
  t.equal(answer.statusCode, 200)
  t.equal(answer.headers[HEADER], 'token-of-ada')
  t.equal((await arrive(ada, corp, OTHER)).answer.headers[HEADER], '', 'another app: empty')
  const sent = await ada.visit(OTHER, { headers: { [HEADER]: 'forged' } })
  t.equal(sent.headers[HEADER], '', 'and none of the client')
  t.notMatch(JSON.stringify(test.log), /token-of-ada/, 'in no log')
  t.notMatch(
    JSON.stringify((await ada.visit('https://auth.example.com/portals/main/profile.json')).body),
    /token-of/,
  )
})

t.test('an app gets a token that is about to end no more, but a new one', async (t) => {
  const test = await start(t, { yaml: yamlWith() })
  const { corp, clock } = test
  const tokensUntil = (access: string, minutes: number) => ({
    tokens: { refresh: 'r', access, accessUntil: clock.now() + minutes * MINUTE },
  })
  corp.state.signedIn = tokensUntil('first', 2)
  const ada = test.visitor()
  t.equal((await arrive(ada, corp, APP)).answer.headers[HEADER], 'first')

  await clock.advance(1.6 * MINUTE)
  corp.state.reRead = (profile) => ({
    kind: 'read',
    signedIn: { ...tokensUntil('second', 5), profile },
  })
  t.equal((await ada.visit(APP)).headers[HEADER], 'second')
  t.equal((await ada.visit(APP)).headers[HEADER], 'second')

  await clock.advance(4.8 * MINUTE)
  expectWarnings(t, 'sessions are not refreshed')
  corp.state.reRead = { kind: 'impossible' }
  const { statusCode, headers } = await ada.visit(APP)
  t.equal(statusCode, 200, 'the session lives')
  t.equal(headers[HEADER], '', 'without a token')
})

t.test("the ID token, under a name of one's own", async (t) => {
  const test = await start(t, { yaml: yamlWith(', token: id, header: X-Id-Token') })
  const { corp, clock } = test
  const id = idTokenUntil(clock.now() + 5 * MINUTE)
  corp.state.signedIn = { tokens: { id } }
  const ada = test.visitor()
  t.equal((await arrive(ada, corp, APP)).answer.headers['x-id-token'], id)
  await clock.advance(4.6 * MINUTE)
  t.equal((await ada.visit(APP)).headers['x-id-token'], '', 'a minute before its end there is none')
})

t.test('a token that no header can hold is left out', async (t) => {
  const test = await start(t, { yaml: yamlWith() })
  const { corp } = test
  for (const access of ['with a space', 'line\r\nX-Admin: 1', 'ü', '', 'x'.repeat(8_193)]) {
    corp.state.signedIn = { tokens: { access } }
    t.equal(
      (await arrive(test.visitor(), corp, APP)).answer.headers[HEADER],
      '',
      access.slice(0, 20),
    )
  }
})
