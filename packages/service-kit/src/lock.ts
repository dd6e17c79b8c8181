import { closeSync, lstatSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

const SQLITE_BUSY = 5

/**
 * Takes a file for this process by a lock of the system, which frees it when the process ends. Gives
 * what frees it, or undefined if another process has it.
 * @throws NodeJS.ErrnoException, and the errors of node:sqlite
 */
export function lockFile(file: string): (() => void) | undefined {
  createEmpty(file)
  const lock = new DatabaseSync(file, { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return () => lock.close()
  } catch (error) {
    lock.close()
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined
    throw error
  }
}

/**
 * SQLite gives its side files the mode of the main one. Never reopens: closing would drop SQLite's locks on it. Refuses
 * a link, through which SQLite would make the file that it leads to.
 */
export function createEmpty(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST'
    if (!isThere || !lstatSync(file).isFile()) throw error
  }
}
