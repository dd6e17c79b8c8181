import { explain as explainCheck, Principal, type Refusal } from '@gatehouse/gate'
import { isIp, parseHost } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import { UsageError } from '@gatehouse/service-kit/program'
import type { ForwardAuthConfig, PortalConfig } from '../config/schema.ts'
import { createAdmission } from '../portals.ts'
import { readPerson } from './person.ts'

/** A request, and who sends it. */
export interface ExplainOptions {
  readonly host: string
  /** Path and query. */
  readonly path?: string
  readonly method?: string
  /** Name of the tool that it calls by MCP. */
  readonly tool?: string
  /** Name of the portal. Default: the only one. */
  readonly portal?: string
  /** Policy or condition that the proxy gives. */
  readonly policy?: string
  readonly if?: string
  /** Address of the client. */
  readonly from?: string
  /** File with the claims of a person. Default: nobody is signed in. */
  readonly as?: string
  /** Name of the provider of that person. Default: the first one. */
  readonly provider?: string
}

/**
 * Explains what a check would decide, and why: by the same functions, without the service, a session
 * or a provider.
 *
 * @throws UsageError
 */
export async function explain(
  config: ForwardAuthConfig,
  options: ExplainOptions,
  now: number,
): Promise<string> {
  const { host: text, path = '/', tool, from } = options
  const { method = tool === undefined ? 'GET' : 'POST' } = options
  const portal = portalOf(config, options.portal)
  const host = parseHost(text)
  if (!host) throw new UsageError(`--host is no host: ${text}`)
  if (!path.startsWith('/')) throw new UsageError('--path must begin with /')
  if (from !== undefined && !isIp(from)) throw new UsageError(`--from is no IP address: ${from}`)
  // As clients send it.
  const target = path.replaceAll(/[^!-~]/gu, encodeURIComponent)
  const principal = await principalOf(portal, options)
  const lines = explainCheck(
    portal,
    { host, target, method, tool, from, query: queryOf(options), now },
    principal,
  )
  const call = tool === undefined ? '' : `, tools/call ${tool},`
  const title = `${method} https://${text}${path}${call} at the portal ${portal.name}`
  return `${[title, ...lines].join('\n')}\n`
}

function portalOf({ portals }: ForwardAuthConfig, name: string | undefined): PortalConfig {
  const names = portals.map((portal) => portal.name).join(', ')
  if (name === undefined && portals.length > 1)
    throw new UsageError(`explain needs --portal, one of: ${names}`)
  const portal = portals.find((each) => name === undefined || each.name === name)
  if (portal) return portal
  throw new UsageError(`there is no portal ${name}, only: ${names}`)
}

function queryOf({ policy, if: condition }: ExplainOptions): string {
  if (policy !== undefined && condition !== undefined)
    throw new UsageError('a check names a policy or a condition: give --policy or --if')
  if (policy !== undefined) return `policy=${encodeURIComponent(policy)}`
  return condition === undefined ? '' : `if=${encodeURIComponent(condition)}`
}

/** A person without a session, whom the app would not be told about. */
class Described extends Principal {
  readonly #refusal: Refusal | undefined

  constructor(portal: PortalConfig, profile: Profile) {
    const nothing = { headers: [], changing: [] }
    super({ method: 'session', portal: portal.name, profile }, profile, nothing)
    const { admits, refusalOf } = createAdmission(portal)
    this.#refusal = admits(profile) ? undefined : refusalOf(profile)
  }

  refusal(): Refusal | undefined {
    return this.#refusal
  }
}

async function principalOf(
  portal: PortalConfig,
  { as: claimsFile, provider = portal.providers[0]?.name ?? '' }: ExplainOptions,
): Promise<Principal | undefined> {
  if (claimsFile === undefined) return undefined
  const row = portal.providers.find(({ name }) => name === provider)
  if (!row) throw new UsageError(`the portal ${portal.name} has no provider ${provider}`)
  return new Described(portal, await readPerson(claimsFile, row))
}
