import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answer, kindOf } from './answer.ts'
import { type Books, newId, type ScriptedCaOptions } from './books.ts'
import { createChainIssuer } from './issuer.ts'
import { type Exchange, type Kind, type Reply, readJws } from './protocol.ts'

/** A CA that plays RFC 8555 on loopback, verifies what it gets, and misbehaves as it is told. */
export interface ScriptedCa {
  readonly directoryUrl: URL
  /** Trust anchors, PEM; one for each of the chains. */
  readonly roots: readonly string[]
  /** Every request, oldest first. */
  readonly exchanges: readonly Exchange[]
  /** How many certificates it has issued, or those with this name. */
  issued(name?: string): number
  /** How many requests of that kind there were. */
  count(kind: Kind): number
  /** Answers the next requests of that kind. */
  answer(kind: Kind, ...replies: Script[]): void
  /** Answers every request of that kind that no other script answers; without a script no more. */
  always(kind: Kind, script?: Script): void
  /** From now on all URLs but the directory's lie elsewhere. */
  move(): void
  /** Forgets every nonce that was given. */
  forgetNonces(): void
  close(): Promise<void>
}

/**
 * What a script answers; a function may let a request pass by giving nothing. With `instead` the CA
 * does what it is asked, and answers something else.
 */
type Script = Reply | ((exchange: Exchange) => Reply | { readonly instead: Reply } | undefined)

/** Starts a {@link ScriptedCa} on a port that the system chooses. */
export async function startScriptedCa(options: ScriptedCaOptions = {}): Promise<ScriptedCa> {
  const exchanges: Exchange[] = []
  const scripts = new Map<Kind, Script[]>()
  const standing = new Map<Kind, Script | undefined>()
  const server = createServer((request, response) => void respond(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const books = await openBooks((server.address() as AddressInfo).port, options)

  async function respond(request: IncomingMessage, response: ServerResponse) {
    const exchange = await readExchange(request)
    exchanges.push(exchange)
    const script = scripts.get(exchange.kind)?.shift() ?? standing.get(exchange.kind)
    const scripted = typeof script === 'function' ? script(exchange) : script
    const isInstead = typeof scripted === 'object' && 'instead' in scripted
    const done = !scripted || isInstead ? await answer(books, exchange) : undefined
    const reply = (isInstead ? scripted.instead : scripted) ?? (done as Reply)
    if (reply === 'hang') return
    if (reply === 'reset') return request.socket.destroy()
    const nonce = newId()
    books.nonces.add(nonce)
    send(response, reply, nonce)
  }

  return {
    directoryUrl: new URL(`${books.origin}/directory`),
    roots: books.issuers.map(({ rootPem }) => rootPem),
    exchanges,
    issued: (name) =>
      [...books.orders.values()]
        .filter(({ chains }) => chains.length > 0)
        .filter(({ identifiers }) => !name || identifiers.some(({ value }) => value === name))
        .length,
    count: (kind) => exchanges.filter((exchange) => exchange.kind === kind).length,
    answer: (kind, ...replies) =>
      void scripts.set(kind, [...(scripts.get(kind) ?? []), ...replies]),
    always: (kind, script) => void standing.set(kind, script),
    move: () => void books.version++,
    forgetNonces: () => books.nonces.clear(),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

async function openBooks(port: number, options: ScriptedCaOptions): Promise<Books> {
  const { now = Date.now, roots = ['Scripted Root'] } = options
  return {
    origin: `http://127.0.0.1:${port}`,
    options: { ...options, now },
    issuers: await Promise.all(roots.map((name) => createChainIssuer(name, now()))),
    accounts: new Map(),
    orders: new Map(),
    authorizations: new Map(),
    nonces: new Set(),
    version: 1,
  }
}

async function readExchange(request: IncomingMessage): Promise<Exchange> {
  const body = Buffer.concat(await request.toArray()).toString()
  const { method = '', url: path = '', headers } = request
  const signed = body === '' ? { jws: undefined, header: {}, payload: undefined } : readJws(body)
  return { kind: kindOf(path), method, path, headers, ...signed }
}

function send(response: ServerResponse, reply: Exclude<Reply, string>, nonce: string) {
  const { status = 200, headers = {}, body = '' } = reply
  const isText = typeof body === 'string'
  const json = status >= 400 ? 'application/problem+json' : 'application/json'
  response.writeHead(status, {
    'content-type': isText ? 'application/pem-certificate-chain' : json,
    'replay-nonce': nonce,
    'cache-control': 'no-store',
    ...headers,
  })
  response.end(isText ? body : JSON.stringify(body))
}
