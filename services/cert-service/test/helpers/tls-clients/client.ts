// Makes a TLS connection for each line of standard input, and says on standard output what came of it.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { connect as connectTls, createSecureContext } from 'node:tls'

const PATIENCE = 20_000
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await ask(line.split(' ')).catch(String)
  console.log(answer.replaceAll('\n', ' '))
}

async function ask(fields: readonly string[]): Promise<string> {
  const [protocol, host = '', port, path, roots = '', certificate = '', key = ''] = fields
  const hasPair = certificate !== '-'
  const pair = hasPair ? { cert: readFileSync(certificate), key: readFileSync(key) } : {}
  const secureContext = createSecureContext({ ca: readFileSync(roots), ...pair })
  const socket = await connectPlain(Number(port), protocol)
  const connection = connectTls({ socket, servername: host, secureContext })
  await once(connection, 'secureConnect')
  if (protocol === 'postgres') {
    connection.end()
    return 'connected'
  }
  connection.write(`GET ${path} HTTP/1.0\r\nHost: ${host}\r\n\r\n`)
  for await (const answer of connection) return String(answer).split(' ')[1] ?? ''
  return 'closed'
}

async function connectPlain(port: number, protocol: string | undefined): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.setTimeout(PATIENCE, () => socket.destroy(new Error('it hangs')))
  await once(socket, 'connect')
  if (protocol === 'https') return socket
  socket.write(SSL_REQUEST)
  const [answer] = await once(socket, 'data')
  if (String(answer) !== 'S') throw new Error('no TLS')
  return socket
}
