import { createPrivateKey, X509Certificate } from 'node:crypto'
import { accessSync, constants, readFileSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { createSecureContext } from 'node:tls'
import { requireCertificates } from '@gatehouse/net'
import { ConfigError } from '../errors.ts'
import type { Fault } from './rules.ts'

const MAX_BYTES = 1_048_576

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'that does not exist',
  ENOTDIR: 'that does not exist',
  EACCES: 'that this user may not read',
  EPERM: 'that this user may not read',
  EISDIR: 'that is a folder',
}
/** The codes on a machine that does not have the secrets. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM']

/** The fault of a file, as the end of a sentence that begins with the key. */
interface FileFault {
  readonly fault: string
  readonly absent: boolean
}

/** Reads a file that the configuration names. */
export function readNamedFile(
  file: string,
  maxBytes: number = MAX_BYTES,
): { readonly bytes: Buffer; readonly text: string } | FileFault {
  try {
    const stats = statSync(file)
    // To read a pipe or a device might never end.
    if (!stats.isFile() && !stats.isDirectory())
      return { fault: 'names a pipe or a device, not a file', absent: false }
    const { size } = stats
    if (size > maxBytes)
      return { fault: `names a file of ${size} bytes, with a limit of ${maxBytes}`, absent: false }
    const bytes = readFileSync(file)
    return { bytes, text: bytes.toString('utf8') }
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

/**
 * The faults of a file, or of its content as `judge` throws them. A file that is not configured has none.
 *
 * @param fault - message for whatever `judge` throws; default: that of the error
 */
export function checkText(
  path: string,
  file: string | undefined,
  judge: (text: string) => unknown,
  fault?: string,
): Fault[] {
  if (file === undefined) return []
  const read = readNamedFile(file)
  if ('fault' in read) return [{ path, message: `${read.fault}: ${file}`, absent: read.absent }]
  try {
    judge(read.text)
    return []
  } catch (error) {
    return [{ path, message: `${fault ?? (error as Error).message}: ${file}` }]
  }
}

/** The faults of a file of PEM certificates. */
export function checkCertificateFile(path: string, file: string | undefined): Fault[] {
  return checkText(path, file, (pem) => {
    try {
      requireCertificates(pem)
    } catch (error) {
      throw new Error(`names a file that ${(error as Error).message}`)
    }
  })
}

/** The faults of the certificate and key of a listener. */
export function checkTlsFiles(
  path: string,
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile: string },
): Fault[] {
  const fault = 'names a file that holds no PEM private key, or one with a passphrase'
  const faults = [
    ...checkCertificateFile(`${path}/certFile`, certFile),
    ...checkText(`${path}/keyFile`, keyFile, createPrivateKey, fault),
  ]
  if (faults.length > 0) return faults
  return checkText(`${path}/keyFile`, keyFile, (pem) => {
    const chain = readFileSync(certFile, 'utf8')
    if (!new X509Certificate(chain).checkPrivateKey(createPrivateKey(pem)))
      throw new Error('names a key that is not that of certFile')
    createSecureContext({ cert: chain, key: pem })
  })
}

/** The faults of a file with a token that is read at each use. */
export function checkTokenFile(path: string, file: string | undefined): Fault[] {
  return checkText(path, file, (text) => {
    if (text.trim() === '') throw new Error('names a file that is empty')
  })
}

/** The magic numbers of proc, sysfs, cgroup2, cgroup, debugfs and devpts, whose folders only the kernel makes. */
const NOT_ON_DISK = [0x9fa0, 0x62656572, 0x63677270, 0x27e0eb, 0x64626720, 0x1cd1]

/** The faults of a folder that the service writes to, and creates if it does not exist. */
export function checkFolder(path: string, folder: string): Fault[] {
  try {
    if (!statSync(folder).isDirectory())
      return [{ path, message: `needs a folder, and this is none: ${folder}` }]
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    if (NOT_ON_DISK.includes(statfsSync(folder).type))
      return [{ path, message: `needs a folder on a disk, not a view of the kernel: ${folder}` }]
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && dirname(folder) !== folder) return checkFolder(path, dirname(folder))
    const message = `needs a folder that this user may write to: ${folder} (${code})`
    return [{ path, message, absent: true }]
  }
}
