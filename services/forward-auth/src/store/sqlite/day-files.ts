import { createReadStream } from 'node:fs'
import { appendFile, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseJson } from '@gatehouse/net'
import { makeFolder } from '@gatehouse/service-kit/files'
import type { AuthStore } from '../auth-store.ts'
import type { AuditStore, StoredAuditRow } from '../store.ts'

const DAY = 86_400_000
const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/

/** The folder of the audit trail, below `storage.path`. */
export function auditFolder({ path }: { readonly path: string }): string {
  return join(path, 'audit')
}

/** The audit trail in files, one for each day. */
export function dayFilesIn(folder: string, age: AuthStore['age']): AuditStore {
  /** Ends a row that a write which failed has left in part. */
  let start = ''
  return {
    /** Each file (of a day in UTC) gets one write, so that several instances can share the folder. */
    async append(rows) {
      const begin = start
      start = '\n'
      makeFolder(folder)
      for (const [day, ofDay] of Map.groupBy(rows, ({ time }) => time.slice(0, 10))) {
        const lines = ofDay.map((row) => `${JSON.stringify(row)}\n`).join('')
        await appendFile(join(folder, `${day}.jsonl`), begin + lines, { mode: 0o600 })
      }
      start = ''
    },
    async prune(retention) {
      const { now, running } = age()
      for (const file of await dayFiles(folder)) {
        const path = join(folder, file)
        const begin = Date.parse(file.slice(0, 10))
        const isCurrent = now - retention < begin + DAY && begin <= now + DAY
        if (isCurrent || running - (await ranAt(path)) < retention) continue
        await rm(path, { force: true })
      }
    },
    rows: (since, until) => readRows(folder, since, until),
  }
}

async function dayFiles(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  return names.filter((name) => DAY_FILE.test(name)).toSorted()
}

/** The time for which the service had run at the first row of a file, or 0 if that cannot be read. */
async function ranAt(path: string): Promise<number> {
  for await (const line of readLines(path)) return parseRow(line)?.ran ?? 0
  return 0
}

/** The rows of a time, in the order of the files. Lines that are no rows are left out. */
export async function* readRows(
  folder: string,
  since: number,
  until = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<StoredAuditRow> {
  for (const file of await dayFiles(folder)) {
    const begin = Date.parse(file.slice(0, 10))
    if (begin + DAY <= since || begin >= until) continue
    for await (const line of readLines(join(folder, file))) {
      const row = parseRow(line)
      const time = row ? Date.parse(row.time) : Number.NaN
      if (row && time >= since && time < until) yield row
    }
  }
}

/**
 * Reads lines; none of a file that another instance has removed. `readline` would end one at U+2028 too, which clients
 * may put into the name of what they call.
 */
async function* readLines(path: string): AsyncGenerator<string> {
  let tail = ''
  try {
    for await (const chunk of createReadStream(path, 'utf8')) {
      const lines = `${tail}${chunk}`.split('\n')
      tail = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  yield tail
}

function parseRow(line: string): StoredAuditRow | undefined {
  const row = parseJson(line) as StoredAuditRow | undefined
  return typeof row?.time === 'string' && typeof row.ran === 'number' ? row : undefined
}
