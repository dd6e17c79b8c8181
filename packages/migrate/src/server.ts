import type { Draft } from './draft.ts'
import type { Given, GivenSetting } from './given.ts'

// le-cert-server and traefik-forward-auth 4 are by one author, and share these settings.

export const lower = (text: string) => text.toLowerCase()

/** Sets the log, from `logs.level` and `logs.json`. */
export function setLog(given: Given, draft: Draft): void {
  draft.copy(['log', 'level'], given.take('logs.level'), lower)
  const isJson = given.isOn('logs.json')
  draft.copy(['log', 'format'], given.take('logs.json'), () => (isJson ? 'json' : 'pretty'))
}

/** The settings for TLS: a folder with files, or their texts. */
interface TlsSettings {
  readonly folder: GivenSetting | undefined
  readonly cert: GivenSetting | undefined
  readonly key: GivenSetting | undefined
}

/** Sets certificate and key of the server; false if there are none. */
export function setTls(draft: Draft, { folder, cert, key }: TlsSettings): boolean {
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
