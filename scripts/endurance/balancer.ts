// A program: passes connections on to one of several addresses, any that accepts them.
// Its argument is JSON: [{ "host", "port", "to": ["host:port", …] }, …].
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface Route {
  readonly host: string
  readonly port: number
  readonly to: readonly string[]
}

const CONNECT_MS = 500

async function reach(target: string): Promise<Socket | undefined> {
  const [host = '', port] = target.split(':')
  const socket = connect(Number(port), host)
  const timer = setTimeout(() => socket.destroy(), CONNECT_MS)
  try {
    // `close` comes instead of the event if the time is over.
    await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    return socket.destroyed ? undefined : socket
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

async function pass(client: Socket, targets: readonly string[], first: number): Promise<void> {
  client.on('error', () => client.destroy())
  for (let n = 0; n < targets.length; n++) {
    const server = await reach(targets[(first + n) % targets.length] ?? '')
    if (!server) continue
    server.on('error', () => client.destroy())
    client.on('close', () => server.destroy())
    server.on('close', () => client.destroy())
    client.pipe(server).pipe(client)
    return
  }
  client.destroy()
}

const routes = JSON.parse(process.argv[2] ?? '[]') as readonly Route[]
let turn = 0
for (const { host, port, to } of routes) {
  const server = createServer((client) => {
    turn += 1
    void pass(client, to, turn)
  })
  server.listen(port, host)
}
