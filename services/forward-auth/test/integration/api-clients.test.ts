import t from 'tap'
import { generateClients, missingGenerators } from '../../../../scripts/test/api-clients.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'

const HOST = 'auth.example.com'
const KEY = 'a-key-that-ends-sessions'
const CALLERS = `callers: { keys: [{ name: hr, key: ${KEY}, hosts: [${HOST}], scopes: ["sessions:end"] }] }`

const typescript = (token: string) => `
import { client } from './sdk/client.gen'
import { endSessions, getAssertionKeys, getReadiness, verifyToken } from './sdk'

const [, , baseUrl = ''] = process.argv
client.setConfig({ baseUrl, headers: { 'x-forwarded-host': '${HOST}', 'x-forwarded-proto': 'https' } })
const path = { portal: 'main' }
const keys = await getAssertionKeys({ path })
const verified = await verifyToken({ path, auth: '${token}' })
const refused = await verifyToken({ path, auth: 'no.token.ofours' })
const headers = { authorization: 'APIKey ${KEY}' }
const ended = await endSessions({ path, body: { person: 'grace' }, headers })
console.log(JSON.stringify({
  status: (await getReadiness()).data?.status,
  keys: keys.data?.keys.map(({ alg }) => alg),
  person: verified.data?.claims.sub,
  refused: [refused.response?.status, refused.error && 'code' in refused.error && refused.error.code],
  ended: ended.data?.ended,
}))
declare const process: { argv: string[] }
`

const python = (token: string) => `
import json, sys
from sdk import AuthenticatedClient, Client
from sdk.api.account import end_sessions
from sdk.api.assertion import get_assertion_keys
from sdk.api.health import get_readiness
from sdk.api.verify import verify_token
from sdk.models import EndSessionsBodyType0

headers = {'x-forwarded-host': '${HOST}', 'x-forwarded-proto': 'https'}
# Each adds its token to the headers that it is given.
client = Client(base_url=sys.argv[1], headers=headers.copy())
browser = AuthenticatedClient(base_url=sys.argv[1], headers=headers.copy(), token='${token}')
stranger = AuthenticatedClient(base_url=sys.argv[1], headers=headers.copy(), token='no.token.ofours')
refused = verify_token.sync_detailed('main', client=stranger)
hr = client.with_headers({'authorization': 'APIKey ${KEY}'})
print(json.dumps({
    'status': get_readiness.sync(client=client).status,
    'keys': [key['alg'] for key in get_assertion_keys.sync('main', client=client).keys],
    'person': verify_token.sync('main', client=browser).claims.sub,
    'refused': [refused.status_code, refused.parsed.code],
    'ended': end_sessions.sync('main', client=hr, body=EndSessionsBodyType0(person='grace')).ended,
}))
`

t.test('clients that are generated from the document', { skip: missingGenerators }, async (t) => {
  const { app, signIn } = await startApp(t, yamlOf(portalOf('main', CALLERS)))
  const clients = await generateClients(t, app)
  const answers = {
    status: 'ready',
    keys: ['ES256', 'ES256'],
    person: 'ada',
    refused: [401, 'FWA_TOKEN_INVALID'],
    ended: 1,
  }
  for (const [name, program] of Object.entries({ typescript, python })) {
    const [cookie = ''] = (await signIn('main', {}, { host: HOST })).split(';')
    await signIn('main', { sub: 'grace' }, { host: HOST })
    const token = cookie.slice(cookie.indexOf('=') + 1)
    t.strictSame(await clients[name as keyof typeof clients](program(token)), answers, name)
  }
})
