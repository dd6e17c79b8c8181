import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t from 'tap'
import { limitConnections } from '../src/run-app.ts'

t.test('refuses connections beyond the limit, and logs it once a minute', async (t) => {
  const server = createServer()
  const lines: object[] = []
  let now = 0
  const log = { warn: (fields: object, message: string) => void lines.push({ ...fields, message }) }
  limitConnections(server, log, { openFiles: 65, now: () => now })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo

  const first = connect(port, '127.0.0.1')
  t.teardown(() => first.destroy())
  await once(server, 'connection')
  const refuse = async () => {
    const dropped = once(server, 'drop')
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const closed = new Promise((resolve) => socket.on('close', resolve))
    await Promise.all([dropped, closed])
  }
  await refuse()
  await refuse()
  await refuse()
  const message = 'connections refused: too many are open'
  t.strictSame(lines, [{ refused: 1, maxConnections: 1, openFiles: 65, message }])
  now = 60_000
  await refuse()
  t.match(lines[1], { refused: 3 })
  t.equal(lines.length, 2)
})

t.test('keeps a tenth of the files free, and sets no limit if the system has none', async (t) => {
  const log = { warn() {} }
  const table: [openFiles: number, maxConnections: number | undefined][] = [
    [10, 1],
    [100, 36],
    [1_024, 921],
    [Number.POSITIVE_INFINITY, undefined],
  ]
  for (const [openFiles, maxConnections] of table) {
    const server = createServer()
    limitConnections(server, log, { openFiles })
    t.equal(server.maxConnections, maxConnections, String(openFiles))
  }
})
