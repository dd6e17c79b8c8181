import type { Provider, RedirectProvider, SignedIn } from '@gatehouse/identity-providers'
import { type Condition, Congestion, orLate } from '@gatehouse/net'
import type { HealthReport } from '@gatehouse/service-kit/http'
import type { FastifyInstance } from 'fastify'
import type { Portal } from '../portal/portals.ts'
import type { SessionRow } from '../store/store.ts'
import { recordEnd } from './ends.ts'
import { LEASE, type OpenedRow, type Records, timesOf } from './records.ts'
import { digestsOf, type Session, type SessionContents, sealSession } from './session.ts'

/** The answers of a provider about a session. */
export const RE_READ_RESULTS = ['read', 'ended', 'fault', 'misconfigured', 'impossible'] as const
export type ReReadResult = (typeof RE_READ_RESULTS)[number]

/** The longest wait of a person for the provider, in ms: once in every {@link PAUSE}. */
const PATIENCE = 3_000
/** The same for what another instance asks: a provider that is well answers sooner. */
const PATIENCE_ELSEWHERE = 1_000
/** The time for which a session is left alone after a fault, in ms: each try writes twice into the store. */
const PAUSE = 30_000
const MAX_PAUSED = 100_000
/** The part of `refresh` from which on the provider is asked beside a request. Sessions differ, so that they spread. */
const EARLIEST = 0.8
/** The shortest time between two questions, in ms, however soon a provider takes people for idle. */
const SHORTEST = 5_000
const DONE = Promise.resolve()

type Count = (portal: string, result: ReReadResult) => void

/** The questions to a provider, and how it fared when that was last logged. */
interface Line {
  readonly questions: Congestion
  condition: Condition
  awaySince: number | undefined
}

/** Asks providers again who people are: when a request comes, and the last answer is old. */
export class ReReading {
  readonly #app: FastifyInstance
  readonly #records: Records
  readonly #count: Count
  readonly #lines = new WeakMap<Provider, Line>()
  readonly #asking = new Map<string, Promise<void>>()
  /** The times until which sessions are left alone. */
  readonly #paused = timesOf(MAX_PAUSED)
  /** The times at which somebody last began to wait for what the provider says of a session. */
  readonly #waited = timesOf(MAX_PAUSED)
  /** Providers that refuse our client, which is logged once. */
  readonly #refused = new Set<string>()
  /** Providers that give nothing to ask with, which is logged once. */
  readonly #silent = new Set<string>()
  /** Providers that end sessions before they are due, which is logged once. */
  readonly #short = new Set<string>()
  /** Providers that have given another refresh token for one. */
  readonly #rotating = new Set<string>()

  constructor(app: FastifyInstance, records: Records, count: Count = () => {}) {
    this.#app = app
    this.#records = records
    this.#count = count
  }

  /** The providers that do not answer, or cannot be asked again, so that groups need not be what they are there. */
  health(): HealthReport {
    const names = new Set([...this.#refused, ...this.#silent])
    for (const [portal, { providers }] of this.#app.portals)
      for (const provider of providers.values()) {
        const condition = this.conditionOf(provider)
        const name = `${portal}/${provider.name}`
        if (condition !== 'well') names.add(condition === 'slow' ? `${name}: slow` : name)
      }
    return { degraded: [...names].map((name) => `provider ${name}`) }
  }

  /** Returns how many questions to each provider are open, and how many wait. */
  load() {
    return [...this.#app.portals].flatMap(([portal, { providers }]) =>
      [...providers.values()].flatMap((provider) => {
        const load = Object.entries(this.#lineOf(provider).questions.load)
        return load.map(([state, value]) => {
          return { labels: { portal, provider: provider.name, state }, value }
        })
      }),
    )
  }

  /** Returns the condition of a provider, whose changes are logged once. */
  conditionOf(provider: Provider): Condition {
    const { log, clock } = this.#app
    const line = this.#lineOf(provider)
    const condition = line.questions.condition(clock.now())
    // A provider that fails has logged that itself.
    const isFailing = provider.failing()
    if (condition !== line.condition && !isFailing)
      log[condition === 'well' ? 'info' : 'warn'](
        { provider: provider.name },
        `the provider is ${condition} when people are read again`,
      )
    line.condition = condition
    const isAway = isFailing || condition === 'away'
    line.awaySince = isAway ? (line.awaySince ?? clock.now()) : undefined
    return isAway ? 'away' : condition
  }

  /** Returns the time since which a provider is known to be away; undefined if it is not. */
  awaySince(provider: Provider): number | undefined {
    return this.conditionOf(provider) === 'away' ? this.#lineOf(provider).awaySince : undefined
  }

  #lineOf(provider: Provider): Line {
    const line = this.#lines.get(provider) ?? {
      questions: new Congestion(),
      condition: 'well',
      awaySince: undefined,
    }
    this.#lines.set(provider, line)
    return line
  }

  /**
   * Asks the provider about a session if that is due, and waits for the answer if it is overdue and an answer can be
   * expected. Gives the session as it is then; undefined if it has ended, or if what it says is older than a provider
   * that does not answer excuses.
   */
  current(session: Session, portal: Portal): Session | undefined | Promise<Session | undefined> {
    const { refresh } = portal.session
    if (refresh === undefined) return session
    const age = this.#app.clock.now() - session.reRead
    const { readableUntil = Number.POSITIVE_INFINITY, reRead } = session
    const due = Math.min(refresh, Math.max(SHORTEST, (readableUntil - reRead) * EARLIEST))
    if (age < due * (EARLIEST + (1 - EARLIEST) * shareOf(session))) return session
    const provider = providerOf(session, portal)
    if (!provider) return session
    const patience = age < refresh ? 0 : this.#patienceFor(session, portal, provider)
    const asking = this.#askOnce(session, portal, provider)
    if (age < refresh) return session
    if (patience > 0 && asking !== DONE) return this.#after(asking, patience, session, portal)
    return this.#isExcused(session, portal) ? session : undefined
  }

  /** Asks the provider about a session although that is not due, and waits for the answer. */
  async renew(session: Session, portal: Portal): Promise<void> {
    // A provider that was just asked has nothing new to say.
    const isNew = this.#app.clock.now() - session.reRead < PAUSE
    const provider = session.isReadable && !isNew && providerOf(session, portal)
    if (!provider) return
    const patience = this.#patienceFor(session, portal, provider)
    const asking = this.#askOnce(session, portal, provider)
    if (patience > 0) await orLate(asking, this.#app.clock, patience)
  }

  /** Whether what the provider said counts, should it not answer. */
  #isExcused({ reRead }: Session, { session: { refresh = 0, grace } }: Portal): boolean {
    return this.#app.clock.now() - reRead < refresh + grace
  }

  /** The ms for which a request may wait for the provider. All requests that come while one waits do so together. */
  #patienceFor(session: Session, portal: Portal, provider: RedirectProvider): number {
    const now = this.#app.clock.now()
    const since = this.#waited.get(session.sid) ?? Number.NEGATIVE_INFINITY
    if (Math.abs(now - since) < PAUSE) return Math.max(0, since + PATIENCE - now)
    const isServed = this.#lineOf(provider).questions.wait(now) <= PATIENCE
    const isWell = this.conditionOf(provider) === 'well'
    if (!isServed || (!isWell && this.#isExcused(session, portal))) return 0
    this.#waited.set(session.sid, now)
    return PATIENCE
  }

  /** The question about a session that waits or is out, or that begins now. */
  #askOnce(session: Session, portal: Portal, provider: RedirectProvider): Promise<void> {
    const { sid } = session
    const { clock, log } = this.#app
    const known = this.#asking.get(sid)
    if (known) return known
    const left = (this.#paused.get(sid) ?? 0) - clock.now()
    // More of it is left if the clock was set back, which must not end all asking.
    if (left > 0 && left <= PAUSE) return DONE
    const asking = this.#ask(session, portal, provider)
      .catch((err) => {
        this.#pause(sid)
        log.warn({ err, provider: provider.name }, 'a session could not be refreshed')
      })
      .finally(() => this.#asking.delete(sid))
    this.#asking.set(sid, asking)
    return asking
  }

  async #after(asking: Promise<void>, patience: number, { sid }: Session, portal: Portal) {
    await orLate(asking, this.#app.clock, patience)
    const session = await this.#records.find(sid)
    return session && this.#isExcused(session, portal) ? session : undefined
  }

  async #ask(session: Session, portal: Portal, provider: RedirectProvider): Promise<void> {
    const { now } = this.#app.clock
    const { questions } = this.#lineOf(provider)
    // Whoever never has a turn is not asked about.
    if (!(await new Promise<boolean>((resolve) => questions.enter(resolve, now())))) return
    // Before the lease is refused, so that what another instance says is not missed.
    const patience = this.#isExcused(session, portal) ? PATIENCE_ELSEWHERE : PATIENCE
    const changed = this.#records.changed(session.sid, patience)
    const over = new AbortController()
    let sentAt: ReturnType<Congestion['send']> | undefined
    let question: Question | 'elsewhere' | undefined
    let answer: ReRead | undefined
    try {
      question = await this.#lease(session, portal, provider, over.signal)
      if (typeof question === 'object') {
        sentAt = questions.send(now())
        answer = await provider.reRead(question.tokens, session.profile)
      }
    } finally {
      over.abort()
      const isAway = answer?.kind === 'fault' && answer.error.code === 'FWA_PROVIDER_UNREACHABLE'
      questions.end(sentAt, isAway, now())
      this.conditionOf(provider)
    }
    if (question === 'elsewhere') await changed
    else if (question && answer) await this.#take(answer, question)
  }

  /** Gives this instance alone the right to ask about a session, until it is over. Another one may be asking. */
  async #lease(
    session: Session,
    portal: Portal,
    provider: RedirectProvider,
    over: AbortSignal,
  ): Promise<Question | 'elsewhere' | undefined> {
    const { sid, rev } = session
    const opened = await this.#records.open(sid)
    if (opened?.row.rev !== rev) return void this.#records.forget(sid)
    const { row, contents } = opened
    // The tokens were lost, see below.
    if (!contents.tokens) return void this.#pause(sid)
    const lease = await this.#records.lease(session, row.lease)
    if (lease === undefined) {
      this.#pause(sid, LEASE)
      // Whoever has asked for longer may be gone.
      const left = row.lease - this.#app.clock.now()
      const isNew = left <= 0 || left > LEASE - PATIENCE_ELSEWHERE
      return isNew || !this.#isExcused(session, portal) ? 'elsewhere' : undefined
    }
    const name = `${portal.name}/${provider.name}`
    const question = { ...opened, session, provider, name, tokens: contents.tokens }
    // Whoever had a lease is gone without a word, and may have used the token.
    if (row.lease !== 0 && this.#isSpent(question))
      return void (await this.#keep(row, { ...contents, tokens: undefined }))
    this.#records.hold(session, lease, over).catch(() => {})
    return question
  }

  /** Whether a refresh token that was sent is used up: that of another provider can be sent again. */
  #isSpent({ contents, name }: Pick<Question, 'contents' | 'name'>): boolean {
    return contents.rotates === true || this.#rotating.has(name)
  }

  async #take(answer: ReRead, question: Question): Promise<void> {
    const { row, contents, session, provider, name, tokens: sentTokens } = question
    const keep = (tokens?: ProviderTokens) => this.#keep(row, { ...contents, tokens })
    this.#count(row.portal, answer.kind)
    this.#noteRefusal(answer, name)
    switch (answer.kind) {
      case 'read': {
        const { profile, tokens, sid: providerSid } = answer.signedIn
        if (sentTokens.refresh !== undefined && tokens.refresh !== sentTokens.refresh)
          this.#rotating.add(name)
        const digests = digestsOf(row.portal, profile, providerSid, provider.relation)
        // Many providers name their session at the sign-in alone.
        const kept = providerSid === undefined && { providerSid: row.providerSid }
        const next = { ...row, ...digests, ...kept, reRead: this.#app.clock.now() }
        const rotates = this.#isSpent(question)
        return this.#keep(next, { ...contents, claims: profile.claims, rotates, tokens })
      }
      case 'ended': {
        const newer = await this.#newerTokens(question)
        return newer ? keep(newer) : this.#end(question, answer.why)
      }
      case 'impossible':
        // Nobody would ever notice that the person of these agents has gone.
        if (contents.isOffline) return this.#end(question, 'it gives nothing to ask with any more')
        return keep({})
      case 'misconfigured':
        this.#pause(session.sid)
        return keep(sentTokens)
      case 'fault': {
        this.#pause(session.sid)
        // A token that is good once and may have been used is never sent again.
        const isLost = answer.isUsed && this.#isSpent(question)
        return keep(answer.tokens ?? (isLost ? undefined : sentTokens))
      }
    }
  }

  async #end({ row, session, provider }: Question, reason: string): Promise<void> {
    const { sid, rev } = session
    // A sign-in may have renewed it meanwhile, with tokens of its own.
    if ((await this.#records.open(sid))?.row.rev !== rev) return this.#records.forget(sid)
    this.#app.log.info({ provider: provider.name, reason }, 'the provider ended a session')
    recordEnd(this.#app, row, { endedBy: 'provider', actor: provider.name })
    return this.#records.endOne(session)
  }

  /**
   * The tokens of the newest session of the person, where a provider has no sessions: GitHub keeps ten tokens of
   * a person, and the eleventh sign-in makes the oldest void. Undefined if those are refused already.
   */
  async #newerTokens({ row: { person }, contents, provider }: Question) {
    if (provider.relation) return undefined
    const [newest] = await this.#app.authStore.listSessions({ person }, 1)
    const tokens = newest && (await this.#records.open(newest.sid))?.contents.tokens
    return tokens?.access === contents.tokens?.access || !tokens?.access ? undefined : tokens
  }

  /** Notes what a sign-in brought: with a refresh token its provider can be asked again, without any token it cannot. */
  noteTokens({ profile, tokens }: SignedIn, portal: Portal): void {
    const provider = portal.providers.get(profile.provider)
    if (provider?.type !== 'redirect') return
    const { refresh, access, refreshUntil = Number.POSITIVE_INFINITY } = tokens
    const name = `${portal.name}/${provider.name}`
    const isAsked = portal.session.refresh !== undefined && provider.reReads
    const isShort = refreshUntil - this.#app.clock.now() < (portal.session.refresh ?? 0)
    if (isShort && !this.#short.has(name)) {
      const message = 'the provider ends sessions that are idle for less than `refresh`'
      this.#app.log.warn({ provider: name }, `${message}: people sign in again after a pause`)
      this.#short.add(name)
    }
    if (refresh !== undefined) this.#silent.delete(name)
    else if (isAsked && access === undefined) this.#noteSilence(name)
  }

  /** Logs once that a provider gives nothing to ask with, until it does. */
  #noteSilence(provider: string): void {
    if (this.#silent.has(provider)) return
    this.#silent.add(provider)
    const message = 'the provider returned no refresh token, so sessions are not refreshed'
    this.#app.log.warn({ provider }, `${message}: many return one for the scope offline_access`)
  }

  /** Logs once that a provider refuses our client, until it does not any more. */
  #noteRefusal(answer: ReRead, provider: string): void {
    if (answer.kind === 'read' && answer.signedIn.tokens.refresh) this.#silent.delete(provider)
    if (answer.kind === 'impossible') this.#noteSilence(provider)
    if (answer.kind !== 'misconfigured') this.#refused.delete(provider)
    else if (!this.#refused.has(provider)) {
      this.#refused.add(provider)
      this.#app.log.error({ err: answer.error, provider }, 'the provider refuses our client')
    }
  }

  /** Leaves a session alone for some ms. */
  #pause(sid: string, ms = PAUSE): void {
    this.#paused.set(sid, this.#app.clock.now() + ms)
  }

  /** Writes a new revision of a session, which gives the lease back. */
  async #keep(row: SessionRow, contents: SessionContents): Promise<void> {
    const next = { ...row, rev: row.rev + 1, lease: 0 }
    await this.#records.update(sealSession(next, contents, this.#app.keys.record))
  }
}

type ProviderTokens = SignedIn['tokens']
type ReRead = Awaited<ReturnType<RedirectProvider['reRead']>>

/** A session that its provider was asked about. */
interface Question extends OpenedRow {
  readonly session: Session
  readonly provider: RedirectProvider
  /** The names of the portal and the provider. */
  readonly name: string
  readonly tokens: ProviderTokens
}

/** The provider that can be asked about a session. */
function providerOf({ profile, isOffline }: Session, { providers }: Portal) {
  const provider = providers.get(profile.provider)
  // For a session of agents alone, the sign-in has asked for a refresh token.
  return provider?.type === 'redirect' && (provider.reReads || isOffline) ? provider : undefined
}

/** A number from 0 to 1, of each revision of a session another one. */
function shareOf({ sid, rev }: Session): number {
  return (sid.charCodeAt(rev % sid.length) % 64) / 64
}
