import { sleep } from '@gatehouse/net'
import { AcmeError } from '../../errors.ts'
import type { DnsProvider, DnsProviderDeps } from './provider.ts'

/** The TXT values at one name, in the spelling of the API. */
interface RecordSet {
  readonly values: readonly string[]
  /** Writes other values, unless the record set has changed since it was read. */
  replace(values: readonly string[]): Promise<WriteResult>
}

interface WriteResult {
  /** The reason why the record set was not written. */
  readonly conflict?: string
  /** Whether the API has applied the change. Absent if it has done so at once. */
  readonly isDone?: () => Promise<boolean>
}

/** An API that replaces whole record sets. */
interface RecordSetApi {
  readonly name: string
  read(name: string, signal: AbortSignal): Promise<RecordSet>
  /** Spells a value as the API does; default: in quotation marks. */
  format?(value: string): string
}

const POLL_MS = 2_000
const MAX_POLLS = 60
const MAX_ATTEMPTS = 5
const PAUSE_MS = 1_000

/** Adds and removes single values of record sets, and reads a set again if it was changed meanwhile. */
export function createRecordSetProvider(
  { name: api, read, format = (value) => `"${value}"` }: RecordSetApi,
  { clock }: DnsProviderDeps,
): DnsProvider {
  async function edit(
    name: string,
    change: (values: readonly string[]) => readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    let conflict: string | undefined
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (attempt > 0) await sleep(clock, PAUSE_MS, signal)
      const current = await read(name, signal)
      const values = change(current.values)
      if (values.length === current.values.length) return
      const written = await current.replace(values)
      conflict = written.conflict
      if (conflict !== undefined) continue
      if (values.length > current.values.length && written.isDone)
        await awaitChange(written.isDone, signal)
      return
    }
    throw new AcmeError('ACME_DNS_PROVIDER', `${name} cannot be changed: ${conflict}`)
  }

  async function awaitChange(isDone: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    for (let poll = 0; poll < MAX_POLLS; poll++) {
      await sleep(clock, POLL_MS, signal)
      if (await isDone()) return
    }
    throw new AcmeError('ACME_DNS_PROPAGATION', `${api} has not carried out the change in time`)
  }

  return {
    check: async (name, signal) => void (await read(name, signal)),
    present({ name, value }, signal) {
      const text = format(value)
      return edit(name, (values) => (values.includes(text) ? values : [...values, text]), signal)
    },
    cleanUp({ name, value }, signal) {
      const text = format(value)
      return edit(name, (values) => values.filter((entry) => entry !== text), signal)
    },
  }
}
