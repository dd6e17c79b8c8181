import { Readable } from 'node:stream'
import { isObject, sleep } from '@gatehouse/net'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ApprovableCall } from '../approvals/approvals.ts'
import type { Check, RuleConfig } from '../check/check-answers.ts'
import { isProven } from '../client-metadata.ts'
import { FwaError } from '../errors.ts'
import { sealValue, unsealValue } from '../keys/key-ring.ts'
import { Agent } from '../oauth/agent.ts'
import { AnswerReader } from './answer.ts'
import { decideAgain } from './decide.ts'
import { COMMENT, eventOf } from './events.ts'
import { limitCall } from './limit.ts'
import { digestOf, withoutState } from './message.ts'
import { pass, sendOn } from './pass.ts'
import type { ProxiedCall } from './proxied-call.ts'

type Approve = NonNullable<RuleConfig['approve']>
type Approval = Awaited<ReturnType<FastifyInstance['approvals']['request']>>

/** The pause between two signs of life while a call waits, in ms: proxies and clients give up on quiet streams. */
const PULSE = 5_000
/** Rounds in which a client asks again by itself. Some clients give up after ten. */
const MAX_ROUNDS = 8
/** The first revision whose clients ask again (MCP 2026-07-28, "Multi Round-Trip Requests"). */
const ROUNDS_SINCE = '2026-07-28'
/** The members of a call that a person sees, and those that say nothing to a tool. */
const MEMBERS = ['name', 'arguments', '_meta', 'task', 'requestState', 'inputResponses']
const RESPONSES = 'inputResponses of the client'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

/** How a person approves a call before it reaches the server; undefined if nobody has to. */
export function approvalFor({ rules, forwarded }: Check): Approve | undefined {
  if (forwarded.mcp?.method !== 'tools/call') return undefined
  return rules.find(({ approve }) => approve)?.approve
}

/** A call that waits for a person. */
interface WaitingCall {
  readonly call: ProxiedCall
  readonly approve: Approve
  readonly check: Check
  /** The number of times that its client has asked again by itself. */
  readonly round: number
  /** Whether its client takes an answer that has it ask again. */
  readonly hasRounds: boolean
  /** What the client answers to a question of the server, which the person sees with the arguments. */
  readonly responses: unknown
}

/** Has a person approve a call, and sends it on then. */
export async function askFirst(
  proxied: ProxiedCall,
  approve: Approve,
  check: Check,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request, server } = reply
  const { message, body } = proxied
  if (message?.id === undefined)
    throw new FwaError('FWA_TOOL_REFUSED', 'a person approves this call, so it needs an id')
  const hidden = Object.keys(message.params).find((name) => !MEMBERS.includes(name))
  if (hidden !== undefined)
    throw new FwaError('FWA_TOOL_REFUSED', `nobody would see ${JSON.stringify(hidden)} of the call`)
  const { requestState, inputResponses } = message.params
  const round = readRound(requestState, check, server)
  // What the server has asked for would be lost in a round of ours.
  const isOfServer = round === undefined && (requestState ?? inputResponses) !== undefined
  const version = String(request.headers['mcp-protocol-version'] ?? '')
  const hasRounds = version >= ROUNDS_SINCE && !isOfServer
  const call = round === undefined || !body ? proxied : { ...proxied, body: withoutState(body) }
  const responses = isOfServer ? inputResponses : undefined
  const waiting = { call, approve, check, round: round ?? 0, hasRounds, responses }
  const approval = await server.approvals.request(approvableCall(waiting), request)
  if (approval.state === 'allowed') return useApproval(waiting, reply)
  const isTold = hasRounds && round === undefined && canOpen(message.params)
  const canWait = /text\/event-stream|\*\/\*/.test(request.headers.accept ?? '') && !isTold
  if (approval.state !== 'asked' || approve.wait === 0 || !canWait)
    return sendJson(answerTo(waiting, approval, reply), reply)
  reply.header('cache-control', 'no-store').header('x-accel-buffering', 'no')
  return reply.type('text/event-stream').send(Readable.from(hold(waiting, approval, reply)))
}

async function useApproval(waiting: WaitingCall, reply: FastifyReply) {
  const { call, check } = waiting
  const isUsed = await reply.server.approvals.use(approvableCall(waiting))
  return isUsed ? pass(call, check, reply) : sendJson(toolError(call, USED), reply)
}

function sendJson(response: object, reply: FastifyReply): FastifyReply {
  return reply.type('application/json').send(JSON.stringify(response))
}

/** Waits for the person, with signs of life, and gives the answer of the server or what the client does next. */
async function* hold(
  waiting: WaitingCall,
  { id, url }: Approval,
  reply: FastifyReply,
): AsyncGenerator<string | Buffer> {
  const { call, check } = waiting
  const { server, request } = reply
  try {
    yield* pulse(waiting, url, server.approvals.decided(id, over(waiting, reply)), reply)
    // Whatever was decided before may be otherwise now.
    const again = await decideAgain(check, request)
    const approve = again && approvalFor(again)
    if (!again?.principal || again.decision.outcome !== 'allow' || !approve)
      return yield eventOf(toolError(call, ENDED))
    const next = { ...waiting, check: again, approve }
    const approvable = approvableCall(next)
    const approval = await server.approvals.look(approvable)
    if (approval && approval.state !== 'allowed')
      return yield eventOf(answerTo(next, approval, reply))
    limitCall(again, again.principal, server)
    if (!(await server.approvals.use(approvable))) return yield eventOf(toolError(call, USED))
    yield* answerOf(call, again, reply)
  } catch (error) {
    if (reply.raw.destroyed) return
    request.log.info({ err: error }, 'a call that was approved has failed')
    const { code, message } = Object(error)
    yield eventOf(toolError(call, error instanceof FwaError ? `${code}: ${message}` : FAILED))
  }
}

/** Signs of life until a person has decided. Where the client shows progress, it says where that is done. */
async function* pulse(
  { call }: WaitingCall,
  url: string,
  decision: Promise<void>,
  { server: { clock } }: FastifyReply,
): AsyncGenerator<string> {
  const { _meta: meta } = call.message?.params ?? {}
  const { progressToken } = Object(meta)
  let isDecided = false
  const decided = decision.finally(() => {
    isDecided = true
  })
  decided.catch(() => {})
  for (let beat = 1; !isDecided; beat++) {
    // The progress of the tool itself begins after that, and must not go back.
    const params = {
      progressToken,
      progress: beat / 1_000,
      message: `Waiting for approval: ${url}`,
    }
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params }
    yield progressToken === undefined ? COMMENT : eventOf(progress)
    await Promise.race([decided, sleep(clock, PULSE)])
  }
}

/** Aborted when a call has waited long enough, or may not go on. */
function over({ call, approve }: WaitingCall, { server: { clock } }: FastifyReply): AbortSignal {
  const waited = new AbortController()
  const timer = clock.setTimer(() => waited.abort(), approve.wait)
  const { signal } = call.abort
  signal.addEventListener('abort', () => timer.cancel())
  return AbortSignal.any([signal, waited.signal])
}

/** The answer of the server to a call that was approved, as events. */
async function* answerOf(
  call: ProxiedCall,
  check: Check,
  reply: FastifyReply,
): AsyncGenerator<string | Buffer> {
  const reader = new AnswerReader(call, check, reply)
  const answer = await sendOn(call, check, reply.request)
  if (answer.isStream) return yield* reader.stream(answer)
  const isJson = /^application\/json(?:;|$)/i.test(answer.headers['content-type'] ?? '')
  const body = await reader.whole(answer)
  if (!isJson) return yield eventOf(toolError(call, FAILED))
  yield 'event: message\ndata: '
  // JSON means the same with spaces in place of its line ends.
  for await (const chunk of Buffer.isBuffer(body) ? [body] : body)
    yield Buffer.from(chunk.toString('latin1').replaceAll(/[\r\n]/g, ' '), 'latin1')
  yield '\n\n'
}

/** The call of a tool, as people are asked about it. */
function approvableCall({ check, approve, responses }: WaitingCall): ApprovableCall {
  const { portal, site, principal, forwarded, resource } = check
  if (!principal || !resource) throw new Error('nobody calls a tool')
  const agent = principal instanceof Agent ? principal : undefined
  const { client = principal.caller } = principal.identity
  const args = {
    ...Object(forwarded.mcp?.arguments),
    ...(responses !== undefined && { [RESPONSES]: responses }),
  }
  const { redirectUri = '', clientName } = agent?.session.agent ?? {}
  return {
    realm: { portal, site },
    principal,
    person: agent && {
      digest: agent.visitor.session.person,
      profile: agent.visitor.session.profile,
    },
    agent: agent?.claims.sid,
    client: {
      id: client,
      name: clientName,
      host: isProven(redirectUri) ? URL.parse(client)?.host : undefined,
    },
    resource: resource.url,
    tool: forwarded.mcp?.name ?? '',
    arguments: args,
    argumentsDigest: digestOf(args),
    approve,
  }
}

/** What a client is told of a call that does not run now. */
function answerTo(waiting: WaitingCall, { state, url }: Approval, reply: FastifyReply): object {
  const { call, check, round, hasRounds } = waiting
  if (state !== 'asked')
    return toolError(call, state === 'allowed' ? USED : REFUSALS[state].replace('{url}', url))
  if (!hasRounds || round >= MAX_ROUNDS) return toolError(call, askText(url))
  const requestState = sealValue({ round: round + 1 }, reply.server.keys.login, purposeOf(check))
  const isTold = round === 0 && canOpen(call.message?.params ?? {})
  const params = {
    mode: 'url',
    message: QUESTION,
    url,
    elicitationId: url.slice(url.lastIndexOf('/') + 1),
  }
  return responseTo(call, {
    resultType: 'input_required',
    ...(isTold && { inputRequests: { approval: { method: 'elicitation/create', params } } }),
    requestState,
  })
}

/** Whether a client opens URLs for its person. */
function canOpen({ _meta: meta }: Readonly<Record<string, unknown>>): boolean {
  return isObject(Object(Object(Object(meta)[CAPABILITIES]).elicitation).url)
}

function purposeOf({ principal, resource, forwarded }: Check): string {
  const { name, arguments: args } = forwarded.mcp ?? {}
  const caller = principal?.caller
  return JSON.stringify(['mcp approval', caller, resource?.url, name, digestOf(Object(args))])
}

/** How often a client has asked again; undefined if that is not for our sake. */
function readRound(
  requestState: unknown,
  check: Check,
  { keys }: FastifyInstance,
): number | undefined {
  return unsealValue<{ readonly round: number }>(requestState, keys.login, purposeOf(check))?.round
}

function toolError(call: ProxiedCall, text: string): object {
  return responseTo(call, {
    resultType: 'complete',
    content: [{ type: 'text', text }],
    isError: true,
  })
}

function responseTo({ message }: ProxiedCall, result: object): object {
  return { jsonrpc: '2.0', id: message?.id, result }
}

const QUESTION = 'Somebody has to approve this call before it runs.'
const askText = (url: string) =>
  `This call has not run: somebody has to approve it first, at ${url} . Tell the person so. Once they have approved it, ` +
  'make exactly the same call again.'
const REFUSALS = {
  denied:
    'This call has not run: it was refused by somebody who may decide about it. Do not make it again.',
  limited:
    'This call has not run: too many calls wait for approval. Have people decide about them first, at {url} .',
  'too-large':
    'This call has not run: its arguments are too long to be shown to a person, who would have to approve it.',
} as const
const USED =
  'This call has not run: nothing that was decided is good for it any more, since an equal call may have run. ' +
  'Make it again if it is to run.'
const ENDED = 'This call has not run: it is not allowed any more.'
const FAILED = 'The MCP server has failed: whether the call has run is not known.'
