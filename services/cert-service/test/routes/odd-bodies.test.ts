import t from 'tap'
import { sendOddBodies } from '../../../../packages/service-kit/test/http/odd-bodies.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { KEY } from '../helpers/app.ts'
import { behindPortal, HOST, ORIGIN } from '../helpers/browse.ts'

const RULES = [
  { people: 'anyone', names: ['*'], rights: ['issue', 'read', 'renew', 'revoke', 'delete'] },
]

t.test('no body is a fault of the service, whoever sends it', async (t) => {
  const ada = { host: HOST, origin: ORIGIN, 'x-gatehouse-assertion': '' }
  const start = async () => {
    const { running, person } = await behindPortal(t, { rules: RULES })
    ada['x-gatehouse-assertion'] = person()
    return running.app
  }
  const senders = [{}, { authorization: `APIKey ${KEY}` }, ada].map((headers) => ({ headers }))
  const routes = await sendOddBodies(t, start, senders, () => 'x.a.test')
  for (const path of ['POST /api/certificate', 'POST /', 'POST /certificates/:domain/revoke'])
    t.ok(routes.includes(path), path)
})

t.test('nor is one of an ACME client', async (t) => {
  const start = async () => (await startAcme(t)).app
  const routes = await sendOddBodies(t, start, [{}], (name) => name)
  t.ok(routes.includes('POST /acme/new-order'))
})
