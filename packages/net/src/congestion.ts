/** The state of a server that is asked: it answers in time, too slowly, or not at all. */
export type Condition = 'well' | 'slow' | 'away'

/** Questions in flight: at the start, and at most. */
const FIRST = 8
const MOST = 64
const MOST_WAITING = 1_000
/** The latency before the first answer, and one that never counts as slow, in ms. */
const USUAL = 250
const QUICK = 500
/** The wait from which a server counts as slow, and for how long it then does, in ms. */
const SLOW = 2_000
const SLOW_FOR = 30_000
const FIRST_PAUSE = 5_000
const LONGEST_PAUSE = 60_000
/** The age at which measurements are forgotten, in ms. */
const FORGOTTEN = 120_000

type Outage = Readonly<{ startedAt: number; pause: number }>

type Question = Readonly<{ sentAt: number; outage: Outage | undefined }>

/**
 * Congestion control for questions to another server, as in TCP (RFC 5681): the window grows by one while answers are
 * quick, and halves once they are slow. After an outage it pauses, longer each time, and then lets one question
 * through. Times are in ms, by any clock.
 */
export class Congestion {
  readonly #line: ((isTurn: boolean) => void)[] = []
  readonly #outstanding = new Set<Question>()
  #window = FIRST
  /** Quick answers since the window changed. */
  #quick = 0
  /** Turns in use. */
  #running = 0
  /** The latency of answers: recent, and least. */
  #latency = USUAL
  #least = Number.POSITIVE_INFINITY
  #halved = Number.NEGATIVE_INFINITY
  #learned = Number.NEGATIVE_INFINITY
  #outage: Outage | undefined
  #slowAt = Number.NEGATIVE_INFINITY

  get load(): Readonly<Record<'waiting' | 'running', number>> {
    return { waiting: this.#line.length, running: this.#running }
  }

  /** @param turn - called once: when a turn has come, or with false if none will */
  enter(turn: (isTurn: boolean) => void, now: number): void {
    this.#forget(now)
    if (this.#isClosed(now) || this.#line.length >= MOST_WAITING) turn(false)
    else this.#line.push(turn)
    this.#advance()
  }

  /** Sends the question of a turn. */
  send(now: number): Question {
    const question = { sentAt: now, outage: this.#outage }
    this.#outstanding.add(question)
    return question
  }

  /**
   * Takes a turn back.
   *
   * @param question - undefined if its question never left
   * @param isAway - whether nobody has answered
   */
  end(question: Question | undefined, isAway: boolean, now: number): void {
    const isFull = this.#running >= this.#window
    this.#running -= 1
    if (question && this.#outstanding.delete(question)) {
      this.#learned = now
      if (!isAway) this.#learn(question, isFull, now)
      // Only the first of several questions that were under way at once counts.
      else if (question.outage === this.#outage) this.#pause(now)
    }
    this.#advance()
  }

  /** The time until a question that enters now is answered; infinite if it would not be sent. */
  wait(now: number): number {
    this.#forget(now)
    if (this.#isClosed(now)) return Number.POSITIVE_INFINITY
    const [oldest] = this.#outstanding
    const latency = Math.max(this.#latency, oldest ? now - oldest.sentAt : 0)
    return latency * Math.max(1, (this.#running + this.#line.length + 1) / this.#window)
  }

  condition(now: number): Condition {
    const wait = this.wait(now)
    if (this.#outage) return 'away'
    if (wait > SLOW) this.#slowAt = now
    const age = now - this.#slowAt
    return age >= 0 && age < SLOW_FOR ? 'slow' : 'well'
  }

  /** Whether no turn is given: during a pause, and while the question after it is in flight. */
  #isClosed(now: number): boolean {
    return this.#outage
      ? this.#running > 0 || now - this.#outage.startedAt < this.#outage.pause
      : false
  }

  #advance(): void {
    while (this.#running < (this.#outage ? 1 : this.#window)) {
      const next = this.#line.shift()
      if (!next) return
      this.#running += 1
      next(true)
    }
  }

  #pause(now: number): void {
    const { pause = FIRST_PAUSE / 2 } = this.#outage ?? {}
    this.#outage = { startedAt: now, pause: Math.min(LONGEST_PAUSE, pause * 2) }
    this.#halve(now)
    for (const turn of this.#line.splice(0)) turn(false)
  }

  #learn({ sentAt }: Question, isFull: boolean, now: number): void {
    const latency = Math.max(0, now - sentAt)
    this.#outage = undefined
    this.#latency += (latency - this.#latency) / 4
    this.#least = Math.min(this.#least, latency)
    if (latency <= Math.max(QUICK, 2 * this.#least)) {
      if (!isFull || ++this.#quick < this.#window) return
      this.#window = Math.min(MOST, this.#window + 1)
      this.#quick = 0
    }
    // It is not our questions that make it slow.
    else if (this.#window === 1) this.#least = latency
    // Questions that were under way at once say the same.
    else if (sentAt >= this.#halved) this.#halve(now)
  }

  #halve(now: number): void {
    this.#window = Math.max(1, Math.floor(this.#window / 2))
    this.#quick = 0
    this.#halved = now
  }

  /** Forgets old measurements, also after the clock was set back, so that no pause grows by that. */
  #forget(now: number): void {
    const age = now - this.#learned
    if (this.#running > 0 || (age >= 0 && age < FORGOTTEN)) return
    this.#outage = undefined
    this.#latency = USUAL
  }
}
