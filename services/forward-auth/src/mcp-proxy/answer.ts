import { Readable } from 'node:stream'
import { attempt } from '@gatehouse/net'
import type { FastifyReply } from 'fastify'
import { type Check, recordPassed } from '../check/check-answers.ts'
import { FwaError } from '../errors.ts'
import type { CallOutcome } from '../store/store.ts'
import { mapMessages, splitEvents, withComments } from './events.ts'
import type { ProxiedCall } from './proxied-call.ts'
import { SESSION_ID, sealSessionId } from './session-id.ts'
import { narrowTools } from './tools.ts'
import type { UpstreamAnswer } from './upstreams.ts'

/** The longest answer in JSON that is looked into, in bytes. A longer one passes as it is. */
const MAX_JSON = 4_194_304

/** Sends the answer of the server to the client: its messages as they are, but lists of tools without those that nobody may call. */
export async function sendAnswer(
  answer: UpstreamAnswer,
  reader: AnswerReader,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { status, headers, sessionId, isStream } = answer
  reply.code(status).headers({ ...headers, 'x-accel-buffering': 'no' })
  // For clients in browsers.
  reply.header('access-control-expose-headers', SESSION_ID)
  if (sessionId !== undefined) reply.header(SESSION_ID, reader.seal(sessionId))
  return reply.send(isStream ? Readable.from(reader.stream(answer)) : await reader.whole(answer))
}

/** Reads the answers of a server on their way to the client. */
export class AnswerReader {
  readonly #call: ProxiedCall
  readonly #check: Check
  readonly #reply: FastifyReply
  #outcome: CallOutcome = 'unknown'

  constructor(call: ProxiedCall, check: Check, reply: FastifyReply) {
    this.#call = call
    this.#check = check
    this.#reply = reply
    const begun = reply.server.clock.now()
    // Also if there is no answer: the call may have run.
    reply.raw.once('close', () => this.#record(begun))
  }

  /** The session of the server, for the client. */
  seal(sessionId: string): string {
    const { principal } = this.#check
    if (!principal) throw new Error('a session is of somebody')
    return sealSessionId(sessionId, this.#call.resource, principal, this.#reply.request)
  }

  /** An answer in JSON. One that is too long is not read. */
  async whole({ status, body }: UpstreamAnswer): Promise<Buffer | Readable> {
    if (status >= 400) this.#outcome = 'failed'
    const whole = await readWhole(body)
    if (!Buffer.isBuffer(whole)) return whole
    const text = whole.toString()
    const changed = this.#read(text)
    return changed === text ? whole : Buffer.from(changed)
  }

  /** A stream of events. */
  async *stream({ body }: UpstreamAnswer): AsyncGenerator<Buffer> {
    const { clock } = this.#reply.server
    const messages = mapMessages(splitEvents(body), (message) => this.#read(message))
    try {
      yield* withComments(messages, clock)
    } catch (error) {
      // Clients go on with another stream. Whoever has ended it does not read any more.
      const isEnded = this.#call.abort.signal.aborted
      if (!isEnded)
        this.#reply.request.log.info({ err: error }, 'a stream was cut off by its server')
    }
  }

  /** Notes what a message says of the call, and gives it as the client gets it. */
  #read(message: string): string {
    const { method, id } = this.#call.message ?? {}
    if (method === 'tools/call' && id !== undefined) this.#note(message, id)
    const { portal, forwarded, principal } = this.#check
    const { server, raw } = this.#reply.request
    const sender = {
      principal,
      clientIp: () => server.trust.clientIp(raw),
      now: server.clock.now(),
    }
    return narrowTools(message, (tool) => portal.gate.mayCall(forwarded, sender, tool))
  }

  #note(message: string, callId: string | number): void {
    const response = Object(attempt(() => JSON.parse(message)))
    if (response.id !== callId || 'method' in response) return
    const isFailed = 'error' in response || Object(response.result).isError === true
    this.#outcome = isFailed ? 'failed' : 'ran'
  }

  #record(begun: number): void {
    const { request, server } = this.#reply
    const { portal, principal, forwarded } = this.#check
    if (!principal) return
    if (forwarded.mcp?.method !== 'tools/call') {
      recordPassed(this.#check, request)
      return
    }
    server.auditTrail.record(request, {
      event: 'tool-called',
      portal: portal.name,
      host: forwarded.authority,
      profile: principal.identity.profile,
      caller: principal.caller,
      client: principal.identity.client,
      tool: forwarded.mcp.name,
      outcome: this.#outcome,
      duration: server.clock.now() - begun,
    })
  }
}

/** Reads an answer, or gives one that is too long as a stream. */
async function readWhole(body: AsyncIterable<Uint8Array>): Promise<Buffer | Readable> {
  const iterator = body[Symbol.asyncIterator]()
  const chunks: Uint8Array[] = []
  let length = 0
  while (length <= MAX_JSON) {
    const { done, value } = await iterator.next().catch((cause: unknown) => {
      const message = 'the answer of the MCP server was cut off'
      throw new FwaError('FWA_UPSTREAM_FAILED', message, { cause })
    })
    if (done) return Buffer.concat(chunks)
    chunks.push(value)
    length += value.length
  }
  async function* all() {
    yield* chunks
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return Readable.from(all())
}
