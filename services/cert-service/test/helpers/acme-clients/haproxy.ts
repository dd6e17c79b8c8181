import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from '../../../../../scripts/free-ports.ts'
import { type Account, type AcmeClient, made, serveUntil } from './client.ts'

/** Debian has an older one, and no registry this, so it is tried where somebody puts the program into the folder. */
const { program, lacks } = made('haproxy')

/** It keeps what it gets in memory, and begins with a certificate of its own. */
export const haproxy: AcmeClient = {
  title: 'HAProxy 3.5',
  product: 'HAProxy',
  lacks,
  isExtra: true,
  atLimit: 'waits',
  start(account, folder) {
    async function serve(name: string) {
      const [port = 0] = await freePorts(1)
      const file = join(folder, 'haproxy.cfg')
      const names = await startNames()
      writeFileSync(file, configOf(account, folder, name, { port, names: names.port }))
      const command = { program, args: ['-db', '-f', file], folder }
      try {
        return await serveUntil(command, () => findChain(port, name), FAILED)
      } finally {
        names.close()
      }
    }
    return { issue: serve, renew: serve }
  },
}

/** It tries again for minutes; what was limited, when it was told to. */
const FAILED = /acme: (?!.*too many).*(?:retrying in|Aborting)/

/** HAProxy verifies no certificate for an address, and asks a name server for every name. */
const HOST = 'localhost'

/** A name server that answers each question for an IPv4 address with that of this machine. */
async function startNames() {
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  socket.on('message', (query, { port, address }) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5)
    const head = Buffer.from('000081800001000100000000', 'hex')
    query.copy(head, 0, 0, 2)
    const answer = Buffer.from('c00c000100010000000000047f000001', 'hex')
    socket.send(Buffer.concat([head, question, answer]), port, address)
  })
  return { port: socket.address().port, close: () => socket.close() }
}

function configOf(
  { directory, rootFile, kid, hmacKey }: Account,
  folder: string,
  name: string,
  { port, names }: { readonly port: number; readonly names: number },
): string {
  const file = (own: string, content: string) => {
    const path = join(folder, own)
    writeFileSync(path, content)
    return path
  }
  return `global
  expose-experimental-directives
  log stderr format raw local0
  httpclient.resolvers.prefer ipv4
  httpclient.ssl.ca-file ${rootFile}

resolvers default
  nameserver own 127.0.0.1:${names}

acme gatehouse
  directory ${directory.replace('127.0.0.1', HOST)}
  eab-key-id ${file('web.kid', kid)}
  eab-mac-key ${file('web.hmac', hmacKey)}
  account-key ${join(folder, 'gatehouse.account.key')}

crt-store
  load crt ${join(folder, `${name}.pem`)} acme gatehouse domains ${name}

frontend in
  mode http
  timeout client 10s
  bind 127.0.0.1:${port} ssl crt ${join(folder, `${name}.pem`)}
`
}

/** The chain that it serves, if it is longer than its own. */
function findChain(port: number, name: string): string | undefined {
  const args = ['s_client', '-connect', `127.0.0.1:${port}`, '-servername', name, '-showcerts']
  try {
    const said = execFileSync('openssl', args, { input: '', stdio: 'pipe', encoding: 'utf8' })
    const chain = said.match(/-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n/gs) ?? []
    return chain.length > 1 ? chain.join('') : undefined
  } catch {
    return undefined
  }
}
