import { createPrivateKey, X509Certificate } from 'node:crypto'
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Fault } from './fault.ts'
import { readNamedFile } from './named-file.ts'

/** What is wrong with a file of PEM certificates that a key names; nothing is written anywhere. */
export function checkCertificateFile(path: string, file: string): Fault[] {
  return checkText(path, file, (pem) => {
    if (!isCertificate(pem)) throw new Error('names a file that holds no PEM certificate')
  })
}

/** What is wrong with the certificate and key of a listener. */
export function checkTlsFiles(
  path: string,
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile: string },
): Fault[] {
  const cert = checkCertificateFile(`${path}/certFile`, certFile)
  const key = checkText(`${path}/keyFile`, keyFile, (pem) => {
    try {
      createPrivateKey(pem)
    } catch {
      throw new Error('names a file that holds no PEM private key, or one with a passphrase')
    }
  })
  if (cert.length + key.length > 0) return [...cert, ...key]
  return checkText(`${path}/keyFile`, keyFile, (pem) => {
    const chain = textOf(certFile)
    if (!new X509Certificate(chain).checkPrivateKey(createPrivateKey(pem)))
      throw new Error('names a key that is not that of certFile')
    createSecureContext({ cert: chain, key: pem })
  })
}

/** What is wrong with a file of a token that is read anew at each use. */
export function checkTokenFile(path: string, file: string): Fault[] {
  return checkText(path, file, (text) => {
    if (text.trim() === '') throw new Error('names a file that is empty')
  })
}

/** What is wrong with the content of a file, as `judge` throws it, or with the file itself. */
export function checkText(path: string, file: string, judge: (text: string) => void): Fault[] {
  const read = readNamedFile(file)
  if ('fault' in read) return [{ path, message: `${read.fault}: ${file}`, absent: read.absent }]
  try {
    judge(read.text)
    return []
  } catch (error) {
    return [{ path, message: `${(error as Error).message}: ${file}` }]
  }
}

/** What is wrong with a folder that the service writes to, and makes if it is not there. */
export function checkFolder(path: string, folder: string): Fault[] {
  try {
    if (!statSync(folder).isDirectory())
      return [{ path, message: `needs a folder, and this is none: ${folder}` }]
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && dirname(folder) !== folder) return checkFolder(path, dirname(folder))
    const message = `needs a folder that this user may write to: ${folder} (${code})`
    return [{ path, message, absent: true }]
  }
}

function textOf(file: string): string {
  const read = readNamedFile(file)
  return 'text' in read ? read.text : ''
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem) !== undefined
  } catch {
    return false
  }
}
