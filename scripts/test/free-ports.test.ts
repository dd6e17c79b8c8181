import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { freePort, freePorts, LAST_BAD_PORT } from '../free-ports.ts'

t.test('no port is given twice while nobody listens on it yet', async (t) => {
  const given = [...(await freePorts(300)), ...(await freePorts(300))]
  t.equal(new Set(given).size, given.length)
})

t.test('`fetch` refuses none of them', async (t) => {
  const { cause } = await fetch(`http://127.0.0.1:${LAST_BAD_PORT}`).catch((error) => error)
  t.match(cause, { message: 'bad port' })
  t.ok((await freePorts(300)).every((port) => port > LAST_BAD_PORT))
})

t.test('a server can listen on the port, and stop and start again', async () => {
  const port = await freePort()
  for (let run = 0; run < 2; run += 1) {
    const server = createServer()
    await once(server.listen(port, '127.0.0.1'), 'listening')
    await once(server.close(), 'close')
  }
})
