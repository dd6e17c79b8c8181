import type { Draft } from './draft.ts'
import type { SourceConfig } from './source.ts'

// le-cert-server and traefik-forward-auth 4 are by one author, and share these settings.

export const lower = (text: string) => text.toLowerCase()

export function setLog(source: SourceConfig, draft: Draft): void {
  draft.copy(['log', 'level'], source.take('logs.level'), lower)
  const format = source.ifOn('logs.json') ? 'json' : 'pretty'
  draft.copy(['log', 'format'], source.take('logs.json'), () => format)
}

/**
 * Sets certificate and key of the server; false if there are none.
 * @param names - the settings: a folder with the files, or the texts of both
 */
export function setTls(source: SourceConfig, draft: Draft, names: readonly string[]): boolean {
  const [folder, cert, key] = names.map((name) => source.take(name))
  const certFile = ['server', 'tls', 'certFile']
  const keyFile = ['server', 'tls', 'keyFile']
  if (cert && key) {
    draft.secret(certFile, 'tls-cert.pem', cert)
    draft.secret(keyFile, 'tls-key.pem', key)
  } else {
    draft.copy(certFile, folder, fileIn('tls-cert.pem'))
    draft.copy(keyFile, folder, fileIn('tls-key.pem'))
  }
  return draft.has(certFile)
}

export const fileIn = (name: string) => (folder: string) => `${folder.replace(/\/$/, '')}/${name}`
