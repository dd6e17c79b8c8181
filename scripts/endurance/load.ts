// What clients do: certificates for names, and sessions of people.
import { setTimeout as sleep } from 'node:timers/promises'
import type { CertificateClient } from './certificate-client.ts'
import type { Target } from './client.ts'
import type { Journal } from './journal.ts'
import { USUALLY_KNOWN_AFTER } from './oracle/sessions.ts'
import type { Random } from './random.ts'
import { ACME_ZONE } from './replicas.ts'
import type { Session, SessionClient } from './session-client.ts'

const MAX_AT_ONCE = 64
const LIVE_SESSIONS = 30
const ENDED_SESSIONS = 500
/** Names in it have certificates of the private CA. */
const OWN_ZONE = 'own.example'
/** After a logout it is looked again, in ms. */
const LATER = 1_000

export interface LoadOptions {
  readonly journal: Journal
  readonly random: Random
  readonly certificates: CertificateClient
  readonly sessions: SessionClient
  readonly certTargets: readonly Target[]
  readonly authTargets: readonly Target[]
  readonly names: number
  readonly people: readonly string[]
}

type Operation = () => Promise<unknown>

/** Draws what clients do next. */
export class Load {
  readonly #options: LoadOptions
  readonly #names: readonly string[]
  /** Nobody has asked for them yet. */
  readonly #fresh: string[]
  /** When the certificates of names are due, by the clock of the machine. */
  readonly #dueAt = new Map<string, number>()
  readonly #live: Session[] = []
  readonly #ended: Session[] = []
  readonly #active = new Set<Promise<unknown>>()

  constructor(options: LoadOptions) {
    this.#options = options
    this.#names = Array.from({ length: options.names }, (_, n) =>
      n % 2 === 0 ? `name-${n}.${ACME_ZONE}` : `name-${n}.${OWN_ZONE}`,
    )
    this.#fresh = [...this.#names]
  }

  get liveSessions(): number {
    return this.#live.length
  }

  get names(): readonly string[] {
    return this.#names
  }

  /** Goes on until so many requests are sent, evenly over the time. */
  async run(requests: number, durationMs: number, signal: AbortSignal): Promise<void> {
    const { journal } = this.#options
    const begun = performance.now()
    const before = journal.entries.length
    // Once for certain, before anything is killed: a short run may draw no revocation and no logout.
    const name = `revoked.${OWN_ZONE}`
    await Promise.all([this.#issue(name), this.#signIn()])
    const [session] = this.#live.splice(0, 1)
    await Promise.all([this.#revoke(name), session && this.#signOut(session)])
    for (;;) {
      const passed = performance.now() - begun
      if (passed >= durationMs || signal.aborted) break
      const sent = journal.entries.length - before
      const isBehind = sent + this.#active.size < (requests * passed) / durationMs
      if (isBehind && this.#active.size < MAX_AT_ONCE) this.#begin(this.#next())
      else await sleep(10)
    }
    await Promise.all(this.#active)
  }

  #begin(operation: Operation): void {
    const running = operation().finally(() => this.#active.delete(running))
    this.#active.add(running)
  }

  #next(): Operation {
    const { random } = this.#options
    return random.chance(0.6) ? this.#nextOfCertificates() : this.#nextOfSessions()
  }

  #nextOfCertificates(): Operation {
    const { random, certificates } = this.#options
    const drawn = random.next()
    const fresh = this.#fresh.length > 0 && random.chance(0.5) ? this.#fresh.shift() : undefined
    if (fresh !== undefined) return () => this.#wave(fresh)
    const name = random.pick(this.#names)
    if (drawn < 0.2) return () => this.#wave(name)
    if (drawn < 0.45) return () => this.#issue(name)
    if (drawn < 0.7) return () => certificates.read(name)
    if (drawn < 0.85) return () => this.#renew()
    if (drawn < 0.95) return () => this.#revoke(name)
    return () => this.#delete(name)
  }

  async #issue(name: string, target?: Target): Promise<void> {
    const { told } = await this.#options.certificates.issue(name, target)
    if (told?.renewAt !== undefined) this.#dueAt.set(name, told.renewAt)
  }

  /** Several callers at several replicas want the same certificate at once. */
  async #wave(name: string): Promise<void> {
    const { random, certTargets } = this.#options
    const targets = random.some([...certTargets, ...certTargets], 2 + random.below(3))
    await Promise.all(targets.map((target) => this.#issue(name, target)))
  }

  /** Several callers renew what is due, at once. */
  async #renew(): Promise<void> {
    const { random, certificates, certTargets } = this.#options
    const now = Date.now()
    const due = [...this.#dueAt].filter(([, at]) => at <= now)
    // It is too early for this one, which the service has to say.
    const [name] = random.pick(due.length > 0 ? due : [[random.pick(this.#names), 0] as const])
    this.#dueAt.delete(name)
    const targets = random.some([...certTargets, ...certTargets], 1 + random.below(3))
    const entries = await Promise.all(targets.map((target) => certificates.renew(name, target)))
    for (const { told } of entries) if (told?.renewAt) this.#dueAt.set(name, told.renewAt)
  }

  async #revoke(name: string): Promise<void> {
    const { certificates, certTargets } = this.#options
    const { status } = await certificates.revoke(name)
    if (status !== 200) return
    this.#dueAt.delete(name)
    await Promise.all(
      certTargets.flatMap((target) => [certificates.read(name, target), certificates.list(target)]),
    )
  }

  async #delete(name: string): Promise<void> {
    const { certificates, certTargets } = this.#options
    const { status } = await certificates.delete(name)
    if (status !== 200 && status !== 204) return
    this.#dueAt.delete(name)
    await Promise.all(certTargets.map((target) => certificates.read(name, target)))
  }

  #nextOfSessions(): Operation {
    const { random, sessions } = this.#options
    const drawn = random.next()
    if (this.#live.length < LIVE_SESSIONS / 3 || drawn < 0.15) return () => this.#signIn()
    if (drawn < 0.5) return () => sessions.check(random.pick(this.#live))
    if (drawn < 0.75 && this.#ended.length > 0)
      return () => sessions.check(random.pick(this.#ended))
    if (this.#live.length < LIVE_SESSIONS) return () => this.#signIn()
    const [session] = this.#live.splice(random.below(this.#live.length), 1)
    return async () => session && this.#signOut(session)
  }

  async #signIn(): Promise<void> {
    const { random, sessions, people } = this.#options
    const session = await sessions.signIn(random.pick(people))
    if (session) this.#live.push(session)
  }

  async #signOut(session: Session): Promise<void> {
    const { sessions, authTargets } = this.#options
    const { status } = await sessions.signOut(session)
    if (status !== 200 && status !== 303) return
    for (const pause of [USUALLY_KNOWN_AFTER, LATER]) {
      await sleep(pause)
      await Promise.all(authTargets.map((target) => sessions.check(session, target)))
    }
    this.#ended.push(session)
    if (this.#ended.length > ENDED_SESSIONS) this.#ended.shift()
  }
}
