// What clients asked and were told. Times are milliseconds on the monotonic clock of the harness.
import { writeFileSync } from 'node:fs'

/** The name of a replica that the client does not know, because the balancer chose it. */
export const ANY_REPLICA = 'balancer'

export interface Exchange {
  /** A replica, or {@link ANY_REPLICA}. */
  readonly replica: string
  readonly sent: number
  /** When the answer was there, or the connection was lost. */
  readonly answered: number
  /** 0: nothing was answered, so that it is not known what happened. */
  readonly status: number
}

/** A certificate as a client got it. */
export interface Told {
  readonly serial: string
  /** SHA-256 of the certificate, hexadecimal. */
  readonly fingerprint: string
  readonly issuer: string
  readonly cached: boolean
  /** By the clock of the machine, ms. */
  readonly notAfter: number
  readonly renewAt: number | undefined
  /** Whether the private key beside it is the one in it. */
  readonly hasItsKey: boolean
  /** The name of what has signed the intermediate of its chain. */
  readonly root: string | undefined
}

export interface CertificateEntry extends Exchange {
  readonly kind: 'issue' | 'read' | 'renew'
  readonly name: string
  readonly told: Told | undefined
}

export interface WithdrawalEntry extends Exchange {
  readonly kind: 'revoke' | 'delete'
  readonly name: string
  /** Of what was revoked, as the answer says. */
  readonly serials: readonly string[]
  /** Replicas that had not confirmed it, as the answer says. */
  readonly unconfirmed: readonly string[]
}

interface CrlEntry extends Exchange {
  readonly kind: 'crl'
  readonly list:
    | { readonly issuer: string; readonly number: bigint; readonly serials: ReadonlySet<string> }
    | undefined
}

/** A step of the roll of the root: one entry for all requests until it was taken. */
export interface RollEntry extends Exchange {
  readonly kind: 'roll'
  readonly stage: 'begun' | 'used' | 'finished'
  /** The name of the root that signs in this stage. */
  readonly signing: string
  readonly from: string
  readonly to: string
  /** Replicas that had not confirmed it, as the answer says. */
  readonly unconfirmed: readonly string[]
}

interface RootsEntry extends Exchange {
  readonly kind: 'roots'
  /** The names of those that are to be trusted. */
  readonly subjects: readonly string[] | undefined
}

export interface SessionEntry extends Exchange {
  /** A sign-in is one entry for all its requests; its status is that of the last one. */
  readonly kind: 'sign-in' | 'sign-out' | 'check'
  readonly person: string
  /** Number of the session; undefined if none came about. */
  readonly session: number | undefined
}

/** What an order of an ACME client came to. */
interface AcmeOrderEntry extends Exchange {
  readonly kind: 'acme order'
  readonly name: string
  readonly order: string
  /** Of the certificate that it gave; undefined if it failed. */
  readonly serial: string | undefined
}

/** A step on the way to one of the others. */
interface OtherEntry extends Exchange {
  readonly kind: 'order' | 'login step'
}

export type Entry =
  | CertificateEntry
  | WithdrawalEntry
  | CrlEntry
  | RollEntry
  | RootsEntry
  | SessionEntry
  | AcmeOrderEntry
  | OtherEntry
export type Kind = Entry['kind']
/** Those members of the union that may be of that kind. */
type EntryOf<K extends Kind, E = Entry> = E extends { readonly kind: infer Own }
  ? [K & Own] extends [never]
    ? never
    : E
  : never

/** A time in which a replica, or all of them, could not reach a database that takes writes. */
export interface Fault {
  readonly what: 'partition' | 'database'
  /** Undefined: all of them. */
  readonly replica: string | undefined
  readonly from: number
  /** Infinity while it lasts. */
  to: number
}

/** Append-only. */
export class Journal {
  readonly entries: Entry[] = []
  readonly faults: Fault[] = []

  add(entry: Entry): void {
    this.entries.push(entry)
  }

  /** Entries of some kinds, in the order in which they were answered. */
  of<K extends Kind>(...kinds: readonly K[]): readonly EntryOf<K>[] {
    const wanted = new Set<Kind>(kinds)
    return this.entries.filter(({ kind }) => wanted.has(kind)) as unknown as EntryOf<K>[]
  }

  /** Notes a fault, and gives what ends it. */
  begin(what: Fault['what'], replica?: string): () => void {
    const fault: Fault = { what, replica, from: performance.now(), to: Number.POSITIVE_INFINITY }
    this.faults.push(fault)
    return () => {
      fault.to = Math.min(fault.to, performance.now())
    }
  }

  /**
   * Whether a replica could not reach the database at any time in between, or had no time since to
   * connect again and to read what it had missed.
   */
  wasCutOff(replica: string, from: number, to: number, graceMs: number): boolean {
    return this.faults.some(
      (fault) =>
        (fault.replica === undefined || fault.replica === replica || replica === ANY_REPLICA) &&
        fault.from <= to &&
        fault.to + graceMs >= from,
    )
  }

  /** One line of JSON for each entry and fault. Private keys never come in here. */
  write(file: string): void {
    const plain = (_: string, value: unknown) => {
      if (typeof value === 'bigint') return value.toString()
      return value instanceof Set ? [...value] : value
    }
    const lines = [...this.faults, ...this.entries].map((one) => JSON.stringify(one, plain))
    writeFileSync(file, `${lines.join('\n')}\n`)
  }
}
