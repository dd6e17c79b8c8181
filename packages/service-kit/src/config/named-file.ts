import { readFileSync, statSync } from 'node:fs'
import { ConfigError } from '../errors.ts'

const MAX_BYTES = 1_048_576

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'that does not exist',
  ENOTDIR: 'that does not exist',
  EACCES: 'that this user may not read',
  EPERM: 'that this user may not read',
  EISDIR: 'that is a folder',
}
/** What a machine without the secrets has in place of their files. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM']

/** The text of a file, or what is wrong with it, as the end of a sentence that begins with its key. */
export type NamedFile =
  | { readonly text: string }
  | { readonly fault: string; readonly absent: boolean }

/** Reads a file that a configuration names. */
export function readNamedFile(file: string, maxBytes: number = MAX_BYTES): NamedFile {
  try {
    if (statSync(file).size > maxBytes)
      return { fault: `names a file of over ${maxBytes} bytes`, absent: false }
    return { text: readFileSync(file, 'utf8') }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    const reason = REASONS[code] ?? 'that cannot be read'
    return { fault: `names a file ${reason} (${code})`, absent: ABSENT.includes(code) }
  }
}

/**
 * The text of a file that the configuration names by `key`, such as `ca.root.keyFile`.
 *
 * @throws ConfigError CONFIG_FILE_UNUSABLE
 */
export function requireNamedFile(key: string, file: string): string {
  const read = readNamedFile(file)
  if ('text' in read) return read.text
  throw new ConfigError('CONFIG_FILE_UNUSABLE', `${key} ${read.fault}: ${file}`)
}
