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
  /** How many used nonces are remembered. */
  readonly most?: number
}

const TIME_BYTES = 6
const RANDOM_BYTES = 10
const MAC_BYTES = 16
const MAC_AT = TIME_BYTES + RANDOM_BYTES
/** Clocks of replicas differ. */
const MAX_SKEW = 60

/**
 * The anti-replay nonces of an ACME server (RFC 8555 section 6.5). They are sealed and not stored: each
 * replica accepts those of all, and each process at most once.
 *
 * Used ones are remembered by the second of their issue. When the memory is full, the oldest second is
 * forgotten; nothing that was issued up to then is accepted any more.
 */
export class Nonces {
  readonly #key: KeyObject
  readonly #deps: Required<Omit<NonceDeps, 'key'>>
  /** The random parts of used nonces, by their second. */
  readonly #used = new Map<number, Set<string>>()
  #size = 0
  /** The second after the last that was forgotten. */
  #floor = 0

  constructor({ key, lifetime = 600_000, most = 100_000, random = randomBytes, clock }: NonceDeps) {
    this.#key = createSecretKey(key)
    this.#deps = { lifetime, most, random, clock }
  }

  issue(): string {
    const bytes = Buffer.alloc(MAC_AT)
    bytes.writeUIntBE(this.#second(), 0, TIME_BYTES)
    bytes.set(this.#deps.random(RANDOM_BYTES), TIME_BYTES)
    return Buffer.concat([bytes, this.#seal(bytes)]).toString('base64url')
  }

  /** Whether the nonce is accepted, which it is once at most; otherwise it is a `badNonce`. */
  use(nonce: string): boolean {
    const bytes = Buffer.from(nonce, 'base64url')
    if (bytes.length !== MAC_AT + MAC_BYTES) return false
    if (!timingSafeEqual(this.#seal(bytes.subarray(0, MAC_AT)), bytes.subarray(MAC_AT)))
      return false
    const second = bytes.readUIntBE(0, TIME_BYTES)
    const now = this.#second()
    if (second < now - this.#deps.lifetime / 1_000 || second > now + MAX_SKEW) return false
    return this.#remember(second, bytes.toString('latin1', TIME_BYTES, MAC_AT))
  }

  /** Now, in seconds. A clock that was set back must not issue what would be refused. */
  #second(): number {
    return Math.max(Math.floor(this.#deps.clock.now() / 1_000), this.#floor)
  }

  #seal(bytes: Uint8Array): Buffer {
    return createHmac('sha256', this.#key).update(bytes).digest().subarray(0, MAC_BYTES)
  }

  #remember(second: number, random: string): boolean {
    if (this.#used.get(second)?.has(random)) return false
    if (!this.#used.has(second)) this.#forgetBefore(this.#second() - this.#deps.lifetime / 1_000)
    if (this.#size >= this.#deps.most) this.#forget(Math.min(...this.#used.keys()))
    if (second < this.#floor) return false
    const used = this.#used.get(second) ?? new Set()
    this.#used.set(second, used.add(random))
    this.#size++
    return true
  }

  #forgetBefore(oldest: number): void {
    for (const second of this.#used.keys()) if (second < oldest) this.#forget(second)
  }

  #forget(second: number): void {
    this.#size -= this.#used.get(second)?.size ?? 0
    this.#used.delete(second)
    this.#floor = Math.max(this.#floor, second + 1)
  }
}
