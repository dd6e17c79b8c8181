import t from 'tap'
import { killClients } from './helpers/client-kills.ts'

t.test('killed while it writes, a client leaves the old files or the new ones', async (t) => {
  t.ok((await killClients(t, 15, 0)) > 10)
})
