import type { RedirectProvider } from '@gatehouse/identity-providers'
import type { HealthReport } from '@gatehouse/service-kit/http'
import type { FastifyInstance } from 'fastify'
import type { Portal } from '../portals.ts'
import { recordEnd } from './ends.ts'
import { type OpenedRow, type Records, timesOf } from './records.ts'
import { digestsOf, type Session, sealSession } from './session.ts'

/** What a provider can answer. */
export const RE_READ_RESULTS = ['read', 'ended', 'fault', 'misconfigured', 'impossible'] as const
export type ReReadResult = (typeof RE_READ_RESULTS)[number]

/** The longest wait of a request for the provider, in ms. */
const PATIENCE = 3_000
/**
 * The time for which one instance alone may ask about a session, in ms: longer than a provider may take, because
 * one that rotates refresh tokens takes the second use of one for a theft (RFC 9700 section 4.14.2).
 */
const LEASE = 150_000
/** The time for which a session is left alone after a fault, in ms: each try writes twice into the store. */
const PAUSE = 30_000
const MAX_PAUSED = 100_000
/** The part of `refresh` from which on the provider is asked beside a request. Sessions differ, so that they spread. */
const EARLIEST = 0.8

type Count = (portal: string, result: ReReadResult) => void

/** Has providers say again who people are: when a request comes, and what they said is old. */
export class ReReading {
  readonly #app: FastifyInstance
  readonly #records: Records
  readonly #count: Count
  readonly #asking = new Map<string, Promise<void>>()
  /** When sessions could not be read again. */
  readonly #failed = timesOf(MAX_PAUSED)
  /** Providers that refuse our client, which is logged once. */
  readonly #refused = new Set<string>()
  /** Providers that give nothing to ask with, which is logged once. */
  readonly #silent = new Set<string>()

  constructor(app: FastifyInstance, records: Records, count: Count = () => {}) {
    this.#app = app
    this.#records = records
    this.#count = count
  }

  /** The providers that cannot be asked again, so that groups need not be what they are there. */
  health(): HealthReport {
    const names = new Set([...this.#refused, ...this.#silent])
    return { degraded: [...names].map((name) => `provider ${name}`) }
  }

  /**
   * Asks the provider about a session if that is due, and waits for the answer if it is overdue. Gives the session
   * as it is then; undefined if it has ended, or if what it says is older than a fault of the provider excuses.
   */
  current(session: Session, portal: Portal): Session | undefined | Promise<Session | undefined> {
    const { refresh } = portal.session
    if (refresh === undefined) return session
    const age = this.#app.clock.now() - session.reRead
    if (age < refresh * (EARLIEST + (1 - EARLIEST) * shareOf(session))) return session
    const asking = this.#asked(session, portal)
    return !asking || age < refresh ? session : this.#after(asking, session, portal)
  }

  /** Asks the provider about a session although that is not due, and waits for the answer. */
  async renew(session: Session, portal: Portal): Promise<void> {
    // What the provider has just said is all that it says.
    const isNew = this.#app.clock.now() - session.reRead < PAUSE
    const asking = session.isReadable && !isNew && this.#asked(session, portal)
    if (asking) await this.#orLate(asking)
  }

  /** The question about a session that is under way, or that begins; undefined if its provider cannot be asked. */
  #asked(session: Session, { name, providers }: Portal): Promise<void> | undefined {
    const { sid, profile } = session
    const provider = providers.get(profile.provider)
    // For agents alone, it was asked for what it can be asked by.
    const isReadable = provider?.type === 'redirect' && (provider.reReads || session.isOffline)
    if (!isReadable) return undefined
    const known = this.#asking.get(sid)
    if (known) return known
    const asking = this.#ask(session, name, provider)
      .catch((err) => {
        this.#noteFailure(sid)
        this.#app.log.warn({ err, provider: provider.name }, 'a session was not read again')
      })
      .finally(() => this.#asking.delete(sid))
    this.#asking.set(sid, asking)
    return asking
  }

  async #after(asking: Promise<void>, { sid }: Session, portal: Portal) {
    const { clock } = this.#app
    await this.#orLate(asking)
    const session = await this.#records.find(sid)
    const { refresh = 0, grace } = portal.session
    return session && clock.now() - session.reRead < refresh + grace ? session : undefined
  }

  async #orLate(asking: Promise<void>): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = this.#app.clock.setTimer(() => late.resolve(), PATIENCE)
    await Promise.race([asking, late.promise])
    timer.cancel()
  }

  async #ask(session: Session, portal: string, provider: RedirectProvider): Promise<void> {
    const { sid, rev } = session
    // Either way, so that a clock that was set back does not end all asking.
    const failed = this.#failed.get(sid)
    if (failed !== undefined && Math.abs(this.#app.clock.now() - failed) < PAUSE) return
    // From now on, so that what another instance says before the lease is refused is not missed.
    const changed = this.#records.changed(sid, PATIENCE)
    const since = this.#app.clock.now()
    const opened = await this.#records.open(sid)
    if (opened?.row.rev !== rev) return this.#records.forget(sid)
    const { tokens } = opened.said
    // The token was lost, see below.
    if (!tokens) return this.#noteFailure(sid)
    if (!(await this.#records.lease(session, this.#app.clock.now() + LEASE))) return changed
    // Whoever held a lease until now, or one since, has ended without a word, and may have used the token.
    if (opened.row.lease !== 0 || this.#app.clock.now() - since > LEASE)
      return this.#keep(opened, undefined)
    const answer = await provider.reRead(tokens, session.profile)
    this.#count(portal, answer.kind)
    this.#noteRefusal(answer, `${portal}/${provider.name}`)
    return this.#take(answer, { ...opened, session, provider })
  }

  /** Writes what the provider answered. */
  async #take(answer: ReRead, asked: Asked): Promise<void> {
    const { row, said, session, provider } = asked
    switch (answer.kind) {
      case 'read': {
        const { profile, tokens, sid: providerSid } = answer.signedIn
        const digests = digestsOf(row.portal, profile, providerSid, provider.relation)
        // Many providers name their session at the sign-in alone.
        const named = providerSid === undefined && { providerSid: row.providerSid }
        const read = { ...row, ...digests, ...named, reRead: this.#app.clock.now() }
        return this.#keep({ row: read, said: { ...said, claims: profile.claims } }, tokens)
      }
      case 'ended': {
        const newer = await this.#newerTokens(asked)
        return newer ? this.#keep(asked, newer) : this.#end(asked, answer.why)
      }
      case 'impossible':
        // Nobody would ever notice that the person of these agents has gone.
        if (said.isOffline) return this.#end(asked, 'it gives nothing to ask with any more')
        return this.#keep(asked, {})
      case 'misconfigured':
        this.#noteFailure(session.sid)
        return this.#keep(asked, said.tokens)
      case 'fault':
        this.#noteFailure(session.sid)
        // A token that may have been used is never sent again.
        return this.#keep(asked, answer.tokens ?? (answer.isUsed ? undefined : said.tokens))
    }
  }

  async #end({ row, session, provider }: Asked, reason: string): Promise<void> {
    const { sid, rev } = session
    // A sign-in may have renewed it meanwhile, with tokens of its own.
    if ((await this.#records.open(sid))?.row.rev !== rev) return this.#records.forget(sid)
    this.#app.log.info({ provider: provider.name, reason }, 'ended by the provider')
    recordEnd(this.#app, row, { endedBy: 'provider', actor: provider.name })
    return this.#records.endOne(session)
  }

  /**
   * The tokens of the newest session of the person, where a provider has no sessions: GitHub keeps ten tokens of
   * a person, and the eleventh sign-in makes the oldest void. Undefined if those are refused already.
   */
  async #newerTokens({ row: { person }, said, provider }: Asked) {
    if (provider.relation) return undefined
    const [newest] = await this.#app.authStore.listSessions({ person }, 1)
    const tokens = newest && (await this.#records.open(newest.sid))?.said.tokens
    return tokens?.access === said.tokens?.access || !tokens?.access ? undefined : tokens
  }

  /** Notes what a sign-in brought: with a refresh token its provider can be asked again, without any token it cannot. */
  noteTokens(
    { refresh, access }: ProviderTokens,
    portal: Portal,
    provider: RedirectProvider | undefined,
  ): void {
    if (provider?.type !== 'redirect') return
    const name = `${portal.name}/${provider.name}`
    const isAsked = portal.session.refresh !== undefined && provider.reReads
    if (refresh !== undefined) this.#silent.delete(name)
    else if (isAsked && access === undefined) this.#noteSilence(name)
  }

  /** Logs once that a provider gives nothing to ask with, until it does. */
  #noteSilence(provider: string): void {
    if (this.#silent.has(provider)) return
    this.#silent.add(provider)
    const message = 'people are not read again: have the provider give refresh tokens'
    this.#app.log.warn({ provider }, `${message}, as many do for the scope offline_access`)
  }

  /** Logs once that a provider refuses our client, until it does not any more. */
  #noteRefusal(answer: ReRead, provider: string): void {
    if (answer.kind === 'read' && answer.signedIn.tokens.refresh) this.#silent.delete(provider)
    if (answer.kind === 'impossible') this.#noteSilence(provider)
    if (answer.kind !== 'misconfigured') this.#refused.delete(provider)
    else if (!this.#refused.has(provider)) {
      this.#refused.add(provider)
      this.#app.log.error({ err: answer.error, provider }, 'our client is refused')
    }
  }

  #noteFailure(sid: string): void {
    this.#failed.set(sid, this.#app.clock.now())
  }

  /** Writes what is known now, which gives the lease back. */
  async #keep({ row, said }: OpenedRow, tokens: OpenedRow['said']['tokens']): Promise<void> {
    const next = { ...row, rev: row.rev + 1, lease: 0 }
    await this.#records.update(sealSession(next, { ...said, tokens }, this.#app.keys.record))
  }
}

type ProviderTokens = Parameters<RedirectProvider['reRead']>[0]
type ReRead = Awaited<ReturnType<RedirectProvider['reRead']>>

/** A session that its provider was asked about. */
interface Asked extends OpenedRow {
  readonly session: Session
  readonly provider: RedirectProvider
}

/** A number from 0 to 1, of each revision of a session another one. */
function shareOf({ sid, rev }: Session): number {
  return (sid.charCodeAt(rev % sid.length) % 64) / 64
}
