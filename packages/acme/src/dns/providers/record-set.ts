import { type Clock, sleep } from '../../clock.ts'
import { AcmeError } from '../../errors.ts'
import type { DnsProvider, DnsRecord } from './provider.ts'

/** The TXT values at one name in the spelling of the API, and what replacing them requires. */
export interface RecordSet<State> {
  readonly values: readonly string[]
  readonly state: State
}

/** An API that replaces whole record sets. */
export interface RecordSetApi<State> {
  /** Spells a value as the API does. */
  format(value: string): string
  read(name: string, signal: AbortSignal): Promise<RecordSet<State>>
  /** Gives a message if the record set has changed since it was read. */
  write(
    name: string,
    before: RecordSet<State>,
    values: readonly string[],
    signal: AbortSignal,
  ): Promise<string | undefined>
}

const POLL_MS = 2_000
const MAX_POLLS = 60

/**
 * Waits until an API has applied a change.
 *
 * @throws AcmeError `ACME_DNS_PROPAGATION`
 */
export async function awaitChange(
  api: string,
  isDone: () => Promise<boolean>,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    await sleep(clock, POLL_MS, signal)
    if (await isDone()) return
  }
  throw new AcmeError('ACME_DNS_PROPAGATION', `${api} has not carried out the change in time`)
}

const MAX_ATTEMPTS = 5
const PAUSE_MS = 1_000

/** Adds and removes single values of record sets, and reads a set again if it was changed meanwhile. */
export function createRecordSetProvider<State>(
  api: RecordSetApi<State>,
  clock: Clock,
): DnsProvider {
  async function edit(
    name: string,
    change: (values: readonly string[]) => readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    let conflict: string | undefined
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (attempt > 0) await sleep(clock, PAUSE_MS, signal)
      const before = await api.read(name, signal)
      const values = change(before.values)
      if (values.length === before.values.length) return
      conflict = await api.write(name, before, values, signal)
      if (conflict === undefined) return
    }
    throw new AcmeError('ACME_DNS_PROVIDER', `${name} cannot be changed: ${conflict}`)
  }

  return {
    check: async (name, signal) => void (await api.read(name, signal)),
    present({ name, value }: DnsRecord, signal) {
      const own = api.format(value)
      return edit(name, (values) => (values.includes(own) ? values : [...values, own]), signal)
    },
    cleanUp({ name, value }, signal) {
      const own = api.format(value)
      return edit(name, (values) => values.filter((other) => other !== own), signal)
    },
  }
}
