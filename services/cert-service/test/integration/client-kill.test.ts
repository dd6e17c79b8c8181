import t from 'tap'
import { killClients } from '../../../../packages/certs-client/test/helpers/client-kills.ts'

t.test('killed at every step, a client leaves the old files or the new ones', async (t) => {
  const killed = await killClients(t, 1, 40)
  t.comment(`${killed} clients were killed`)
  t.ok(killed >= 200)
})
