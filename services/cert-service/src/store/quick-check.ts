import { Worker } from 'node:worker_threads'
import { CertError } from '../errors.ts'
import { storeFailure } from './failure.ts'

/** As text, since a bundle has no file for it. Errors of SQLite lose their codes on the way. */
const SOURCE = `
const { parentPort, workerData } = require('node:worker_threads')
const { DatabaseSync } = require('node:sqlite')
let sqlite
try {
  sqlite = new DatabaseSync(workerData, { readOnly: true, timeout: 5000 })
  const [row] = sqlite.prepare('PRAGMA quick_check(1)').all()
  parentPort.postMessage({ result: row.quick_check })
} catch ({ message, code, errcode }) {
  parentPort.postMessage({ message, code, errcode })
} finally {
  sqlite?.close()
}`

/**
 * Reads every page of a store in a thread of its own, so that requests go on meanwhile.
 *
 * @throws CertError CERT_STORE_CORRUPT, CERT_STORE_UNAVAILABLE
 */
export async function quickCheck(file: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const worker = new Worker(SOURCE, { eval: true, workerData: file, execArgv: [] })
  const stop = () => void worker.terminate()
  signal.addEventListener('abort', stop)
  try {
    const { promise, resolve, reject } = Promise.withResolvers<Outcome | undefined>()
    worker.once('message', resolve).once('error', reject)
    worker.once('exit', () => resolve(undefined))
    assertSound(file, await promise)
  } finally {
    signal.removeEventListener('abort', stop)
    await worker.terminate()
  }
}

type Outcome = { result: string } | { message: string; code: string; errcode?: number }

function assertSound(file: string, outcome: Outcome | undefined): void {
  // Stopped before its end.
  if (!outcome) return
  if (!('result' in outcome)) throw storeFailure(outcome) ?? new Error(outcome.message)
  if (outcome.result === 'ok') return
  throw new CertError('CERT_STORE_CORRUPT', `${file} is damaged: ${outcome.result}`)
}
