/**
 * A process of its own: ACME clients that order certificates, or ask one thing again and again, over
 * connections that stay open. Each takes its nonces from the answers that it gets.
 */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { buildCsr, generateP256, parseName } from '@gatehouse/pki'
import {
  bindExternalAccount,
  publicJwk,
  signRequest,
  thumbprintOf,
} from '../../packages/acme/src/protocol/jws.ts'

/** Clients of a server, which are registered once and answered with their id. */
export interface AcmeClients {
  readonly port: number
  /** PEM of the root to trust: speaks TLS. */
  readonly ca?: string | undefined
  readonly directory: string
  readonly accounts: number
  readonly connections: number
  /** `ip`: addresses of loopback, which lead to this process and so can be proven. */
  readonly names: 'dns' | 'ip'
  /** Where the key for external account binding is had, and the API key for that. */
  readonly external?: { readonly path: string; readonly authorization: string }
}
export type ClientsId = number

export interface AcmeLoad {
  readonly clients: ClientsId
  /** An order from newOrder to its certificate, a POST-as-GET of one order, or one with a wrong signature. */
  readonly what: 'order' | 'read' | 'refused'
  readonly ms: number
}

export interface AcmeResult {
  readonly answers: number
  /** Those that the server answered with a fault of its own. */
  readonly failed: number
  readonly requests: number
  readonly seconds: number
  /** Milliseconds. */
  readonly p50: number
}

export interface GeneratorReady {
  /** Where http-01 is answered. */
  readonly proofPort: number
}

interface Account {
  readonly key: KeyObject
  readonly thumbprint: string
  url: string
  /** Of the order that is read. */
  order?: string
}

interface Answer {
  readonly status: number
  readonly head: string
  readonly text: string
}

const HEAD_END = '\r\n\r\n'
const all: Clients[] = []
/** The thumbprint of the account that a token was made for. */
const tokens = new Map<string, string>()
let running = 0

const device = createServer((request, response) => {
  const token = request.url?.split('/').at(-1) ?? ''
  response.end(`${token}.${tokens.get(token)}`)
  tokens.delete(token)
}).listen(0, '0.0.0.0')
await once(device, 'listening')

process.on('message', (message: AcmeClients | AcmeLoad) => {
  answer(message).then(
    (result) => process.send!(result),
    (error) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit())
process.send!({ proofPort: (device.address() as AddressInfo).port } satisfies GeneratorReady)

async function answer(message: AcmeClients | AcmeLoad): Promise<AcmeResult | ClientsId> {
  if ('what' in message) return all[message.clients]!.run(message)
  const clients = new Clients(message)
  await clients.register()
  return all.push(clients) - 1
}

class ServerFault extends Error {}

/** One connection, with one request in flight, and the nonce of its last answer. */
class Connection {
  readonly #socket: Socket
  readonly #authority: string
  #received = ''
  #onAnswer: (answer: Answer) => void = () => {}
  nonce = ''
  isOpen = true
  requests = 0

  private constructor(socket: Socket, authority: string) {
    this.#socket = socket
    this.#authority = authority
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#receive(text))
    socket.on('error', () => {})
    socket.on('close', () => {
      this.isOpen = false
    })
  }

  static async open({ port, ca }: AcmeClients): Promise<Connection> {
    const to = { port, host: '127.0.0.1', noDelay: true }
    const socket = ca === undefined ? connectTcp(to) : connectTls({ ...to, ca })
    await once(socket, ca === undefined ? 'connect' : 'secureConnect')
    return new Connection(socket, `127.0.0.1:${port}`)
  }

  send(method: string, path: string, body = '', headers = ''): Promise<Answer> {
    this.requests += 1
    const length = method === 'POST' ? `content-length: ${body.length}\r\n` : ''
    this.#socket.write(
      `${method} ${path} HTTP/1.1\r\nhost: ${this.#authority}\r\nuser-agent: bench/1.0\r\n${headers}${length}\r\n${body}`,
    )
    return new Promise((resolve) => {
      this.#onAnswer = resolve
    })
  }

  #receive(text: string): void {
    this.#received += text
    const end = this.#received.indexOf(HEAD_END)
    if (end === -1) return
    const head = this.#received.slice(0, end)
    const body = bodyOf(head, this.#received.slice(end + HEAD_END.length))
    if (body === undefined) return
    this.#received = ''
    this.nonce = /replay-nonce: (\S+)/i.exec(head)?.[1] ?? this.nonce
    this.#onAnswer({ status: Number(head.slice(9, 12)), head, text: body })
  }
}

/** Undefined until it is complete. */
function bodyOf(head: string, received: string): string | undefined {
  const [, length] = /content-length: (\d+)/i.exec(head) ?? []
  if (length !== undefined) return received.length < Number(length) ? undefined : received
  if (!/transfer-encoding: chunked/i.test(head)) return ''
  if (!received.endsWith('0\r\n\r\n')) return undefined
  let body = ''
  for (let at = 0; ; ) {
    const start = received.indexOf('\r\n', at) + 2
    const size = Number.parseInt(received.slice(at, start), 16)
    if (size === 0) return body
    body += received.slice(start, start + size)
    at = start + size + 2
  }
}

class Clients {
  readonly #options: AcmeClients
  readonly #accounts: Account[] = []
  #connections: Connection[] = []
  #directory: Record<'newNonce' | 'newAccount' | 'newOrder', string>
  #turn = 0

  constructor(options: AcmeClients) {
    this.#options = options
    this.#directory = { newNonce: '', newAccount: '', newOrder: '' }
  }

  async register(): Promise<void> {
    const { directory, external, accounts } = this.#options
    await this.#open()
    const [first] = this.#connections
    this.#directory = JSON.parse((await first!.send('GET', directory)).text)
    const bound =
      external &&
      JSON.parse(
        (
          await first!.send(
            'POST',
            external.path,
            '{}',
            `authorization: ${external.authorization}\r\ncontent-type: application/json\r\n`,
          )
        ).text,
      )
    const url = this.#directory.newAccount
    await this.#each(async (connection) => {
      await connection.send('HEAD', pathOf(this.#directory.newNonce))
      while (this.#accounts.length < accounts) {
        const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
        const thumbprint = thumbprintOf(JSON.stringify(publicJwk(key)))
        const account: Account = { key, thumbprint, url: '' }
        this.#accounts.push(account)
        const externalAccountBinding = bound && bindExternalAccount(bound, key, url)
        const payload = { termsOfServiceAgreed: true, externalAccountBinding }
        const jws = signRequest({ key }, { url, nonce: connection.nonce }, payload)
        const { head } = await this.#send(connection, url, JSON.stringify(jws), 201)
        account.url = /location: (\S+)/i.exec(head)?.[1] ?? ''
      }
    })
  }

  async run({ what, ms }: AcmeLoad): Promise<AcmeResult> {
    await this.#open()
    const one = { order: this.#order, read: this.#read, refused: this.#refuse }[what]
    const before = this.#requests()
    const times: number[] = []
    let failed = 0
    const started = performance.now()
    const deadline = started + ms
    stayAwake(deadline)
    await this.#each(async (connection) => {
      while (performance.now() < deadline) {
        const from = performance.now()
        const account = this.#accounts[this.#turn++ % this.#accounts.length]!
        try {
          await one.call(this, connection, account)
          times.push(performance.now() - from)
        } catch (error) {
          if (!(error instanceof ServerFault)) throw error
          failed += 1
        }
      }
    })
    return {
      answers: times.length,
      failed,
      requests: this.#requests() - before,
      seconds: (performance.now() - started) / 1_000,
      p50: times.sort((a, b) => a - b)[times.length >> 1]!,
    }
  }

  async #order(connection: Connection, account: Account): Promise<void> {
    const name = this.#newName()
    const made = await this.#post(connection, account, this.#directory.newOrder, {
      identifiers: [{ type: this.#options.names, value: name }],
    })
    const order = JSON.parse(made.text)
    if (order.status === 'pending') await this.#prove(connection, account, order.authorizations[0])
    const csr = buildCsr(generateP256(), [parseName(name)]).toString('base64url')
    const finalized = await this.#post(connection, account, order.finalize, { csr })
    const { certificate } = JSON.parse(finalized.text)
    const { text } = await this.#post(connection, account, certificate)
    if (!text.startsWith('-----BEGIN CERTIFICATE')) throw new Error(`no certificate: ${text}`)
  }

  async #prove(connection: Connection, account: Account, url: string): Promise<void> {
    const { challenges } = JSON.parse((await this.#post(connection, account, url)).text)
    const challenge = challenges.find((one: { type: string }) => one.type === 'http-01')
    tokens.set(challenge.token, account.thumbprint)
    const { text } = await this.#post(connection, account, challenge.url, {})
    if (JSON.parse(text).status !== 'valid') throw new Error(`not proven: ${text}`)
  }

  async #read(connection: Connection, account: Account): Promise<void> {
    account.order ??= await this.#placeOrder(connection, account)
    await this.#post(connection, account, account.order)
  }

  async #refuse(connection: Connection, account: Account): Promise<void> {
    const url = account.url
    const header = encode({ alg: 'ES256', kid: url, nonce: connection.nonce, url })
    const signature = `${'B'.repeat(85)}Q`
    await this.#send(connection, url, jwsOf(header, '', signature), 400)
  }

  async #placeOrder(connection: Connection, account: Account): Promise<string> {
    const identifiers = [{ type: this.#options.names, value: this.#newName() }]
    const url = this.#directory.newOrder
    const { head } = await this.#post(connection, account, url, { identifiers })
    return /location: (\S+)/i.exec(head)?.[1] ?? ''
  }

  #newName(): string {
    running += 1
    if (this.#options.names === 'dns') return `n${running}.example.com`
    return `127.${1 + (running >> 16)}.${(running >> 8) & 255}.${running & 255}`
  }

  #post(connection: Connection, { key, url: kid }: Account, url: string, payload?: object) {
    const header = encode({ alg: 'ES256', kid, nonce: connection.nonce, url })
    const body = payload ? encode(payload) : ''
    const input = Buffer.from(`${header}.${body}`)
    const signature = sign('sha256', input, { key, dsaEncoding: 'ieee-p1363' })
    return this.#send(connection, url, jwsOf(header, body, signature.toString('base64url')))
  }

  async #send(connection: Connection, url: string, jws: string, status?: number): Promise<Answer> {
    const type = 'content-type: application/jose+json\r\n'
    const answer = await connection.send('POST', pathOf(url), jws, type)
    if (status === undefined ? answer.status < 300 : answer.status === status) return answer
    const message = `${url}: ${answer.head}\n${answer.text}`
    throw answer.status === 500 ? new ServerFault(message) : new Error(message)
  }

  async #open(): Promise<void> {
    this.#connections = await Promise.all(
      Array.from({ length: this.#options.connections }, async (_, n) => {
        const before = this.#connections[n]
        if (before?.isOpen) return before
        const opened = await Connection.open(this.#options)
        if (before) opened.nonce = before.nonce
        return opened
      }),
    )
  }

  #each(drive: (connection: Connection) => Promise<void>) {
    return Promise.all(this.#connections.map(drive))
  }

  #requests(): number {
    return this.#connections.reduce((sum, { requests }) => sum + requests, 0)
  }
}

/** A server pays for waking a client that sleeps. */
function stayAwake(deadline: number): void {
  if (performance.now() < deadline) setImmediate(stayAwake, deadline)
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

const jwsOf = (header: string, payload: string, signature: string): string =>
  `{"protected":"${header}","payload":"${payload}","signature":"${signature}"}`

const pathOf = (url: string): string => new URL(url).pathname
