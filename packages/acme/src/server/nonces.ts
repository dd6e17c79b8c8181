import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import type { Clock } from '@gatehouse/net'

interface NonceDeps {
  /** 32 bytes for nothing else: the same at all replicas and after a restart. */
  readonly key: Uint8Array
  readonly clock: Pick<Clock, 'now'>
  readonly random?: (size: number) => Uint8Array
  /** Milliseconds. */
  readonly lifetime?: number
  /** The number of used nonces that are remembered. */
  readonly most?: number
}

const TIME_BYTES = 6
const RANDOM_BYTES = 10
const MAC_BYTES = 16
const MAC_AT = TIME_BYTES + RANDOM_BYTES
/** Seconds by which the clock of another replica may be ahead. */
const MAX_SKEW = 60

/**
 * The anti-replay nonces of an ACME server (RFC 8555 section 6.5). They are sealed and not stored: each
 * replica accepts those of all, and each process accepts a nonce once.
 *
 * Used ones are remembered by the second of their issue. When the memory is full, the oldest second is
 * forgotten; nothing that was issued up to then is accepted any more.
 */
export class Nonces {
  readonly #key: KeyObject
  readonly #clock: Pick<Clock, 'now'>
  readonly #random: (size: number) => Uint8Array
  /** Seconds. */
  readonly #lifetime: number
  readonly #most: number
  /** The random parts of used nonces, by their second. */
  readonly #used = new Map<number, Set<string>>()
  #size = 0
  /** The second after the last that was forgotten. */
  #floor = 0

  constructor({ key, clock, random = randomBytes, lifetime, most = 100_000 }: NonceDeps) {
    this.#key = createSecretKey(key)
    this.#clock = clock
    this.#random = random
    this.#lifetime = (lifetime ?? 600_000) / 1_000
    this.#most = most
  }

  issue(): string {
    const bytes = Buffer.alloc(MAC_AT)
    bytes.writeUIntBE(this.#now(), 0, TIME_BYTES)
    bytes.set(this.#random(RANDOM_BYTES), TIME_BYTES)
    return Buffer.concat([bytes, this.#seal(bytes)]).toString('base64url')
  }

  /** Whether the nonce is accepted, which it is once at most; otherwise it is a `badNonce`. */
  use(nonce: string): boolean {
    const bytes = Buffer.from(nonce, 'base64url')
    if (bytes.length !== MAC_AT + MAC_BYTES) return false
    const [sealed, mac] = [bytes.subarray(0, MAC_AT), bytes.subarray(MAC_AT)]
    if (!timingSafeEqual(this.#seal(sealed), mac)) return false
    const second = bytes.readUIntBE(0, TIME_BYTES)
    const age = this.#now() - second
    if (age > this.#lifetime || age < -MAX_SKEW) return false
    return this.#remember(second, bytes.toString('latin1', TIME_BYTES, MAC_AT))
  }

  /** Seconds. When the clock was set back, what is issued must still be accepted. */
  #now(): number {
    return Math.max(Math.floor(this.#clock.now() / 1_000), this.#floor)
  }

  #seal(bytes: Uint8Array): Buffer {
    return createHmac('sha256', this.#key).update(bytes).digest().subarray(0, MAC_BYTES)
  }

  #remember(second: number, random: string): boolean {
    if (this.#used.get(second)?.has(random)) return false
    const oldest = this.#now() - this.#lifetime
    if (!this.#used.has(second))
      for (const usedSecond of this.#used.keys()) if (usedSecond < oldest) this.#forget(usedSecond)
    if (this.#size >= this.#most) this.#forget(Math.min(...this.#used.keys()))
    if (second < this.#floor) return false
    const used = this.#used.get(second) ?? new Set()
    this.#used.set(second, used.add(random))
    this.#size++
    return true
  }

  #forget(second: number): void {
    this.#size -= this.#used.get(second)?.size ?? 0
    this.#used.delete(second)
    this.#floor = Math.max(this.#floor, second + 1)
  }
}
