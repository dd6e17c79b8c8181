import { moveStore } from '@gatehouse/cert-store'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import { UsageError } from '@gatehouse/service-kit/program'
import type { CertServiceConfig } from '../config/schema.ts'

type Storage = Pick<CertServiceConfig['storage'], 'path' | 'url' | 'caFile' | 'schema'>

const URL = /^postgres(ql)?:/

/**
 * Moves the store that is configured, which nobody uses, to the other engine: from a folder to the database
 * whose URL is `to` or in the file `to`, or from a database to the folder `to`. The store itself stays as it
 * is. Cut short at any point, the same command completes it. Gives a line for each table, and what is to be
 * done afterwards.
 * @throws UsageError; StoreError
 */
export async function* move(
  storage: Storage,
  to: string | undefined,
  say: (text: string) => void = () => {},
): AsyncGenerator<string> {
  if (to === undefined)
    throw new UsageError('move needs --to, the URL of a database or a folder for the store')
  say('copying the store')
  for await (const { table, rows, isComplete } of moveStore(storage, targetOf(storage, to))) {
    say(`copying ${table}: ${rows}`)
    if (isComplete) yield `${table}: ${rows}\n`
  }
  yield nextSteps(storage, to)
}

/** The URL of a database, or a folder. A URL has a password, which others see in a command line. */
function targetOf({ url }: Storage, to: string): string {
  if (url === undefined) return URL.test(to) ? to : requireNamedFile('--to', to).trim()
  if (!URL.test(to)) return to
  throw new UsageError('the store is in a database, so --to names a folder')
}

function nextSteps({ url, schema }: Storage, to: string): string {
  const kept = 'The old store is unchanged; never start a service on it again.'
  return url === undefined
    ? `The store is now in the schema ${schema}. Configure storage.url or storage.urlFile in place of storage.path, and give
each replica the same master key. ${kept}\n`
    : `The store is now in ${to}. Configure it as storage.path in place of storage.url, and start one process with the
same master key. ${kept}\n`
}
