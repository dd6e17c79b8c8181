import type { Policy, Principal } from '@gatehouse/gate'
import { orAborted } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { macOf, sealValue, unsealValue } from '../keys/key-ring.ts'
import type { ShownCall } from '../pages/calls.ts'
import { type ArgumentLine, argumentLines } from '../pages/visible.ts'
import type { Portal } from '../portal/portals.ts'
import type { Visitor } from '../session/session.ts'
import { pageUrl } from '../sites.ts'
import type { ApprovalRow, AuditEvent } from '../store/store.ts'
import type { Realm } from '../web/realm.ts'

const MINUTE = 60_000
/** The time for a decision, and those for which it holds, in ms. */
const LIFETIMES = { asked: 10 * MINUTE, allowed: 2 * MINUTE, denied: 10 * MINUTE }
/** The time after which whoever waits looks again, in ms, should no event tell of an end. */
const LOOK = 5_000
const MAX_LISTED = 100
/** The longest name of a tool (MCP 2025-11-25, "Tool Names"). */
const MAX_TOOL = 128

type ApproveConfig = NonNullable<Portal['gate']['rules'][number]['config']['approve']>

/** A call that a person has to approve. */
export interface ApprovableCall {
  readonly realm: Realm
  readonly principal: Principal
  /** The person of an agent. Undefined for a program that acts for nobody: then only an `approver` can decide. */
  readonly person: { readonly digest: string; readonly profile: Profile } | undefined
  /** ID of the session of the agent. */
  readonly agent: string | undefined
  /** The client: `host` is the one that it has proven. */
  readonly client: Readonly<{ id: string; name?: string | undefined; host?: string | undefined }>
  /** URL of the resource. */
  readonly resource: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly argumentsDigest: string
  readonly approve: ApproveConfig
}

/** What has become of a call: `limited` and `too-large` are those that nobody is asked about. */
interface ApprovalAnswer {
  readonly state: 'asked' | 'allowed' | 'denied' | 'limited' | 'too-large'
  readonly id: string
  /** URL of the page where people decide. */
  readonly url: string
}

/** The sealed contents of a row. Their `until` bounds that of the row. */
interface ApprovalContents extends ShownCall {
  readonly approve: ApproveConfig
  readonly caller: string
  readonly clientId: string
  /** The key of the row that allows further calls. */
  readonly rememberedKey: string
}

/** A call that a person may decide about. */
export interface OpenedCall {
  readonly row: ApprovalRow
  readonly contents: ApprovalContents
  /** The policies that whoever decides has to meet. */
  readonly policies: readonly Policy[]
}

/** The calls of all portals that people have to approve. */
class Approvals {
  readonly #app: FastifyInstance

  constructor(app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Finds what was decided about a call, or else asks.
   *
   * @param request - of the call
   * @throws StoreError STORE_UNAVAILABLE
   */
  async request(call: ApprovableCall, request?: FastifyRequest): Promise<ApprovalAnswer> {
    if (!call.person && call.approve.approver === undefined) return answerTo(call, 'denied')
    const lines = call.tool.length <= MAX_TOOL ? argumentLines(call.arguments) : undefined
    if (!lines) return answerTo(call, 'too-large')
    const row = await this.#find(call)
    if (row) return answerTo(call, row)
    const opened = this.#openedOf(call, lines)
    if (await this.#app.authStore.addApproval(opened.row)) {
      this.#record('call-asked', opened, undefined, request)
      this.#tell(call, opened.row)
      return answerTo(call, opened.row)
    }
    // An equal one may have been quicker.
    return answerTo(call, (await this.#find(call)) ?? 'limited')
  }

  /** Finds what was decided about a call, or is to be, and asks nobody. @throws StoreError STORE_UNAVAILABLE */
  async look(call: ApprovableCall): Promise<ApprovalAnswer | undefined> {
    const row = await this.#find(call)
    return row && answerTo(call, row)
  }

  /** Uses what a person has allowed: what they have allowed once, once. @throws StoreError STORE_UNAVAILABLE */
  async use(call: ApprovableCall): Promise<boolean> {
    const row = await this.#find(call)
    if (row?.state === 'remembered') return true
    return row?.state === 'allowed' && this.#app.authStore.useApproval(row.key)
  }

  /** Resolves when a call was decided or has ended, at any instance, or on abort. */
  async decided(id: string, signal: AbortSignal): Promise<void> {
    const { sessions, authStore, clock } = this.#app
    while (!signal.aborted) {
      // Before the row is read, so that no decision comes between.
      const change = sessions.records.changed(id, LOOK)
      const row = await authStore.findApproval(id)
      if (row?.state !== 'asked' || row.until <= clock.now()) return
      await orAborted(change, signal).catch(() => {})
    }
  }

  /** The call with an ID, whether or not it waits still; undefined unless the person may decide about it. */
  async find(id: string, visitor: Visitor): Promise<OpenedCall | undefined> {
    const row = await this.#app.authStore.findApproval(id)
    return row && this.#openFor(visitor, row)
  }

  /** The calls that wait for a person. */
  async list(visitor: Visitor): Promise<readonly OpenedCall[]> {
    const { gate, name } = visitor.portal
    const approvers = new Set(gate.rules.flatMap(({ config }) => config.approve?.approver ?? []))
    const policies = [...approvers].flatMap((approver) => gate.policies.get(approver) ?? [])
    const roles = policies.filter((policy) => visitor.meets(policy))
    const deciders = [visitor.session.person, ...roles.map((role) => `${name} ${role.name}`)]
    const lists = deciders.map((decider) => this.#app.authStore.listApprovals(decider, MAX_LISTED))
    const rows = (await Promise.all(lists)).flat()
    return rows.flatMap((row) => this.#openFor(visitor, row) ?? [])
  }

  /** Decides about a call. Resolves with false if it does not wait any more. */
  async decide(
    { row, contents }: OpenedCall,
    decision: 'once' | 'remember' | 'deny',
    visitor: Visitor,
    request: FastifyRequest,
  ): Promise<boolean> {
    const { authStore, clock, sessions } = this.#app
    const state = decision === 'deny' ? 'denied' : 'allowed'
    const lasting = (changed: Partial<ApprovalRow>, time: number) =>
      this.#sealed({ ...row, ...changed }, { ...contents, until: clock.now() + time })
    const { approve, rememberedKey: key } = contents
    const time = decision === 'remember' ? approve.remember : undefined
    const remembered = time === undefined ? undefined : lasting({ key, state: 'remembered' }, time)
    if (!(await authStore.decideApproval(lasting({ state }, LIFETIMES[state]), remembered)))
      return false
    sessions.records.learn([{ kind: 'changed', key: row.key, until: row.until }])
    this.#record(`call-${state}`, { row, contents }, visitor, request)
    return true
  }

  /** What was decided about a call, else what allows all calls of its tool, else the question. */
  async #find(call: ApprovableCall): Promise<ApprovalRow | undefined> {
    const { key, rememberedKey } = this.#keysOf(call)
    const row = await this.#current(key)
    const isDecided = row !== undefined && row.state !== 'asked'
    if (isDecided || call.approve.remember === undefined) return row
    return (await this.#current(rememberedKey)) ?? row
  }

  /** The row with a key, unless it has ended. */
  async #current(key: string): Promise<ApprovalRow | undefined> {
    const row = await this.#app.authStore.findApproval(key)
    return row && row.until > this.#app.clock.now() && this.#open(row) ? row : undefined
  }

  /** The digests of a call. A change of who has to decide makes it another one. */
  #keysOf(call: ApprovableCall) {
    const { record } = this.#app.keys
    const { realm, principal, person, client, resource, tool, approve } = call
    const owner = person?.digest ?? macOf(['program', realm.portal.name, principal.caller], record)
    const parts = [owner, client.id, resource, tool, approve.approver, approve.stepUp]
    const keyOf = (...rest: unknown[]) => macOf(['approval', ...parts, ...rest], record)
    const rememberedKey = keyOf('tool', call.agent)
    return { owner, key: keyOf('call', call.argumentsDigest), rememberedKey }
  }

  #openedOf(call: ApprovableCall, lines: readonly ArgumentLine[]) {
    const { realm, person, agent = null, client, approve } = call
    const { owner, key, rememberedKey } = this.#keysOf(call)
    const { caller } = call.principal
    const begun = this.#app.clock.now()
    const contents: ApprovalContents = {
      ...{ resource: call.resource, tool: call.tool, arguments: lines, begun, approve },
      ...{ clientId: client.id, clientName: client.name, caller, rememberedKey },
      // A program that acts for nobody has proven its name.
      clientHost: client.host ?? (person ? undefined : caller),
      principal: person && { ...person.profile, claims: {} },
      until: begun + LIFETIMES.asked,
    }
    const portal = realm.portal.name
    const decider = approve.approver === undefined ? owner : `${portal} ${approve.approver}`
    const row = { key, portal, person: owner, agent, decider, state: 'asked', until: 0, sealed: '' }
    return { row: this.#sealed(row, contents), contents }
  }

  /** Seals what a row is about, for itself and no other one. */
  #sealed(row: ApprovalRow, contents: ApprovalContents): ApprovalRow {
    const sealed = sealValue(contents, this.#app.keys.record, contextOf(row))
    return { ...row, until: contents.until, sealed }
  }

  /** Undefined if somebody has changed the row who has no key. They may have shortened it. */
  #open(row: ApprovalRow): ApprovalContents | undefined {
    const { record } = this.#app.keys
    const contents = unsealValue<ApprovalContents>(row.sealed, record, contextOf(row))
    return contents && row.until <= contents.until ? contents : undefined
  }

  /** A call for whoever may decide: the person themselves, or with an `approver` anybody else who meets that policy. */
  #openFor(visitor: Visitor, row: ApprovalRow): OpenedCall | undefined {
    const { portal, session } = visitor
    const contents = row.portal === portal.name ? this.#open(row) : undefined
    if (!contents || row.state === 'remembered' || !visitor.isAdmitted) return undefined
    const { approver, stepUp } = contents.approve
    const isOwn = row.person === session.person
    if (isOwn !== (approver === undefined)) return undefined
    const names = [approver, stepUp].filter((name) => name !== undefined)
    const policies = names.flatMap((name) => portal.gate.policies.get(name) ?? [])
    const isMet = policies.length === names.length && policies.every((each) => visitor.meets(each))
    return isMet ? { row, contents, policies } : undefined
  }

  /** Tells the receivers of events, and the person if they may decide. */
  #tell(call: ApprovableCall, row: ApprovalRow): void {
    const { email } = call.person?.profile ?? {}
    const isTheirs = call.approve.approver === undefined && email?.verified === true
    this.#app.events.add({
      type: 'approval-requested',
      portal: row.portal,
      host: new URL(call.resource).host,
      tool: call.tool,
      url: answerTo(call, row).url,
      email: isTheirs ? email.address : undefined,
    })
  }

  #record(
    event: AuditEvent,
    { row, contents }: Omit<OpenedCall, 'policies'>,
    visitor?: Visitor,
    request?: FastifyRequest,
  ): void {
    const { clientId: client, caller, tool, principal: profile, resource } = contents
    const actorName = visitor?.session.profile.name?.full
    this.#app.auditTrail.record(request, {
      ...{ event, portal: row.portal, profile, caller, client, tool },
      host: new URL(resource).host,
      ender: visitor && { actor: visitor.caller, actorName },
    })
  }
}

/** Whoever writes into the store cannot allow anything, nor prolong or move what was allowed. */
function contextOf({ key, portal, person, agent, decider, state }: ApprovalRow): string {
  return `approval ${JSON.stringify([key, portal, person, agent, decider, state])}`
}

function answerTo(
  { realm }: ApprovableCall,
  result: ApprovalRow | ApprovalAnswer['state'],
): ApprovalAnswer {
  if (typeof result === 'string')
    return { state: result, id: '', url: pageUrl(realm, '/account/calls') }
  const { key: id, state } = result
  const isRemembered = state === 'remembered'
  const url = pageUrl(realm, `/account/calls/${id}`)
  return { state: isRemembered ? 'allowed' : (state as ApprovalAnswer['state']), id, url }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly approvals: Approvals
  }
}

export const approvals = fp(
  async (app: FastifyInstance) => {
    app.decorate('approvals', new Approvals(app))
  },
  {
    name: 'forward-auth/approvals',
    dependencies: [
      'forward-auth/keys',
      'forward-auth/store',
      'forward-auth/portals',
      'forward-auth/audit',
      'forward-auth/sessions',
      'forward-auth/events',
      'service-kit/clock',
    ],
  },
)
