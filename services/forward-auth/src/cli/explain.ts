import {
  type Decision,
  explain as explainCheck,
  Gate,
  Principal,
  type Refusal,
} from '@gatehouse/gate'
import { isIp } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import { statusOfError } from '@gatehouse/service-kit/http'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import { forwardDialect } from '@gatehouse/service-kit/proxies'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { readForwarded } from '../check/check.ts'
import { codeOf } from '../check/check-answers.ts'
import { isRead, requireSecure } from '../check/hops.ts'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { createClient } from '../doctor/client.ts'
import { createMcpClient, listTools } from '../doctor/mcp-client.ts'
import { ERRORS, type FwaError, STATUS_OF } from '../errors.ts'
import { callOf, readMessage } from '../mcp-proxy/message.ts'
import { createAdmission } from '../portal/portals.ts'
import { createSites, type Sites, sitesOf } from '../sites.ts'
import { KEY, onePortal, readPerson } from './person.ts'

type Option =
  | 'path'
  | 'method'
  | 'tool'
  | 'server'
  | 'arguments'
  | 'portal'
  | 'policy'
  | 'if'
  | 'from'
  | 'as'

/** A request, and who sends it: the options of the command. */
export type ExplainOptions = { readonly host: string } & Readonly<
  Partial<Record<Option, string | undefined>>
>

/** The methods that a check accepts. */
const METHOD = /^[A-Za-z][A-Za-z-]{0,31}$/

/** What is the same for all requests that are explained at once. */
interface Scene {
  readonly portal: PortalConfig
  readonly gate: Gate
  readonly sites: Sites
  readonly sender: Parameters<typeof explainCheck>[3]
}

/**
 * Explains what a check would answer, and why: by the same functions, without the service, a session or a provider.
 *
 * @throws UsageError; GateError FWA_POLICY_UNKNOWN; ProfileError PROFILE_CONDITION_…; AuthError AUTH_OPTIONS_INVALID
 */
export async function explain(
  config: ForwardAuthConfig,
  options: ExplainOptions,
  now: number,
): Promise<string> {
  const { from, server } = options
  const portal = onePortal(config.portals, options.portal)
  if (from !== undefined && !isIp(from)) throw new UsageError(`--from is no IP address: ${from}`)
  const log = createLogger({ name: 'explain', level: 'silent', format: 'json' })
  const gate = new Gate(portal, { now: () => now, elapsed: () => performance.now(), log })
  gate.readPolicy(queryOf(options))
  const principal = await principalOf(portal, gate, options.as)
  const sender = { principal, clientIp: () => from, now }
  const scene = { portal, gate, sites: createSites(sitesOf(config)), sender }
  const lines =
    server === undefined
      ? (await explainRequest(options, scene)).lines
      : await explainTools(server, options, scene)
  await gate.close()
  return `${lines.join('\n')}\n`
}

/** Asks an MCP server for its tools, and says which rules fit each of them. */
async function explainTools(
  server: string,
  options: ExplainOptions,
  scene: Scene,
): Promise<string[]> {
  if (options.tool !== undefined) throw new UsageError('explain takes --tool or --server')
  const url = URL.parse(server)
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UsageError(`--server must be the URL of an MCP server, not ${server}`)
  const lines: string[] = []
  for (const tool of await listTools(createMcpClient(url, createClient()))) {
    const { rules, answer } = await explainRequest({ ...options, tool }, scene)
    const explained = options.as === undefined ? rules : [...rules, ...answer]
    lines.push(printable(tool), ...explained.map((line) => `  ${line}`))
  }
  return lines
}

async function explainRequest(options: ExplainOptions, { portal, gate, sites, sender }: Scene) {
  const { title, headers } = readRequest(options)
  const lines = [`${title} at the portal ${portal.name}`]
  let rules: readonly string[] = []
  let answer: readonly string[]
  try {
    const request = { headers, rawHeaders: [] }
    const forwarded = withCall(gate, readForwarded(gate, forwardDialect, request, sites), options)
    const explained = await explainCheck(gate, portal, forwarded, sender, queryOf(options))
    lines.push(...explained.lines)
    rules = explained.rules
    // Not every identity can be sent.
    if (explained.decision.outcome === 'allow') sender.principal?.answerAt(forwarded.host)
    answer = describeAnswer(forwarded, explained.decision)
  } catch (error) {
    answer = describeRefusal(error)
  }
  return { lines: [...lines, ...answer], rules, answer }
}

type Forwarded = ReturnType<typeof readForwarded>

/** The call of a tool: as its headers name it, or at the URL of a resource with an `upstream` as the MCP proxy reads it. */
function withCall(gate: Gate, forwarded: Forwarded, options: ExplainOptions): Forwarded {
  const { path, tool: name, arguments: text } = options
  const { upstream, path: resourcePath } = gate.resourceAt(forwarded) ?? {}
  const isProxied = upstream && resourcePath === path
  if (text !== undefined && !(name && isProxied))
    throw new UsageError('--arguments needs --tool, and the URL of a resource with an `upstream`')
  if (name === undefined || forwarded.method !== 'POST') return forwarded
  // At other paths of its host, nobody is believed what they call.
  if (!isProxied && gate.hasUpstreamAt(forwarded)) return forwarded
  if (!isProxied) return forwarded.withCall({ method: 'tools/call', name })
  const params = `{"name":${JSON.stringify(name)},"arguments":${text ?? '{}'}}`
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)
  return forwarded.withCall(callOf(readMessage(body)))
}

const PASSES = {
  allow: 'passes, with an identity',
  anonymous: 'passes, without an identity',
  preflight: 'passes as a preflight, without an identity',
}

/** Describes the answer of a check, and the reason. */
function describeAnswer(forwarded: Forwarded, decision: Decision): string[] {
  switch (decision.outcome) {
    case 'forbidden': {
      const { reason, clause } = decision.refusal
      const cause = clause === undefined ? '' : `, because this is not true: ${clause}`
      return [`decision: 403 ${codeOf(decision)}, refused by ${reason}${cause}`]
    }
    case 'step-up': {
      const reason = `, for ${decision.policy.name}: acr or maxAge is not met`
      return describeSignIn(forwarded, '401 FWA_STEP_UP_REQUIRED', reason)
    }
    case 'sign-in':
    case 'no-session':
      return describeSignIn(forwarded, '401 FWA_NO_SESSION')
    default:
      return [`decision: 200, ${PASSES[decision.outcome]}`]
  }
}

/** @param program - what a program gets, which is not led to the sign-in page */
function describeSignIn(forwarded: Forwarded, program: string, reason = ''): string[] {
  if (forwarded.kind !== 'navigation') return [`decision: ${program}${reason}`]
  const [browser, ...advice] = describeBrowser(forwarded, reason)
  return [`${browser}; a program gets ${program}`, ...advice]
}

function describeBrowser(forwarded: Forwarded, reason: string): string[] {
  try {
    requireSecure(forwarded)
  } catch (error) {
    return describeRefusal(error)
  }
  if (isRead(forwarded)) return [`decision: 302, a browser is sent to sign in${reason}`]
  return [`decision: 403, a browser gets a page with a link to sign in${reason}`]
}

/** The request, and the headers of a check of it. */
function readRequest(options: ExplainOptions) {
  const { host: text, path = '/', tool } = options
  const { method = tool === undefined ? 'GET' : 'POST' } = options
  if (!path.startsWith('/')) throw new UsageError('--path must begin with /')
  if (!METHOD.test(method)) throw new UsageError(`--method is no method: ${method}`)
  const [, scheme = 'https', host = text] = /^(https?):\/\/(.*)$/.exec(text) ?? []
  const call = tool === undefined ? '' : `, tools/call ${tool},`
  const headers = {
    ...headersOf(method, tool),
    'x-forwarded-method': method,
    'x-forwarded-proto': scheme,
    'x-forwarded-host': host,
    // As clients send it.
    'x-forwarded-uri': path.replaceAll(/[^!-~]/gu, encodeURIComponent),
  }
  return { title: `${method} ${scheme}://${host}${path}${call}`, headers }
}

function queryOf({ policy, if: condition }: ExplainOptions): string {
  if (policy !== undefined && condition !== undefined)
    throw new UsageError('a check names a policy or a condition: give --policy or --if')
  if (policy !== undefined) return `policy=${encodeURIComponent(policy)}`
  return condition === undefined ? '' : `if=${encodeURIComponent(condition)}`
}

/** A person without a session. */
class UnstoredPerson extends Principal {
  readonly #refusal: Refusal | undefined

  constructor(portal: PortalConfig, gate: Gate, profile: Profile) {
    super({ method: 'session', portal: portal.name, profile }, profile, gate)
    const { admits, refusalOf } = createAdmission(portal)
    this.#refusal = admits(profile) ? undefined : refusalOf(profile)
  }

  refusal(): Refusal | undefined {
    return this.#refusal
  }
}

async function principalOf(
  portal: PortalConfig,
  gate: Gate,
  text: string | undefined,
): Promise<Principal | undefined> {
  if (text === undefined) return undefined
  if (!text.startsWith(KEY))
    return new UnstoredPerson(portal, gate, await readPerson(text, portal.providers))
  const key = gate.programs.findByKeyName(text.slice(KEY.length))
  if (key) return key
  throw new UsageError(`the portal ${portal.name} has no key ${text.slice(KEY.length)}`)
}

/** The headers of a browser that opens a page, or asks before a call of another site, and none of an MCP client. */
function headersOf(method: string, tool: string | undefined): Record<string, string> {
  if (tool !== undefined) return {}
  if (method === 'OPTIONS')
    return { origin: 'https://gatehouse.invalid', 'access-control-request-method': 'GET' }
  return { 'sec-fetch-mode': 'navigate' }
}

/** Describes an answer of a check that is no decision. */
function describeRefusal(error: unknown): string[] {
  const { code, message } = Object(error) as FwaError
  const status = statusOfError(error, STATUS_OF)
  if (status === undefined) throw error
  return [`decision: ${status} ${code}: ${message}`, `to do: ${ERRORS[code].action}`]
}
