import { readFileSync, statSync } from 'node:fs'
import { type Clock, createFetch } from '@gatehouse/net'
import type { Profile } from '@gatehouse/pki'
import { isExposed, openCredentials, type Source } from './credentials.ts'
import { ClientError } from './errors.ts'
import { type ActionFor, type CertService, connect } from './service.ts'
import type { ServiceConnection } from './settings.ts'

interface ServiceContext {
  readonly clock: Pick<Clock, 'now'>
  readonly actionFor: ActionFor
  readonly log: { warn(fields: object, message: string): void }
  readonly signal?: AbortSignal
  readonly profile?: Profile | undefined
}

/** Opens the API of a service, with connections that are closed at the end. */
export function openService(
  { url, caFile, source }: ServiceConnection,
  { clock, log, signal, actionFor, profile }: ServiceContext,
): CertService & AsyncDisposable {
  for (const file of filesOf(source)) warnIfExposed(file, log)
  const fetch = createFetch(caFile === undefined ? {} : { ca: readRoots(caFile) })
  // Issuers of tokens have certificates of their own, which the roots of this service say nothing about.
  const issuerFetch = createFetch()
  const credentials = openCredentials(source, { fetch: issuerFetch, now: clock.now })
  const service = connect({ url, credentials, fetch, now: clock.now, signal, actionFor, profile })
  const close = async () => void (await Promise.all([fetch.close(), issuerFetch.close()]))
  return Object.assign(service, { [Symbol.asyncDispose]: close })
}

/** Warns of a file with a secret that everybody may read. */
export function warnIfExposed(file: string, log: ServiceContext['log']): void {
  if (isExposed(file))
    log.warn({ file }, 'every user of this machine may read this file: chmod 600')
}

/** The files of keys. Files of tokens are left out: Kubernetes makes them readable within the pod. */
function filesOf(source: Source): readonly string[] {
  const secrets = [
    source.kind === 'key' && source.key,
    source.kind === 'client' && source.clientSecret,
  ]
  return secrets.flatMap((secret) => (secret && 'file' in secret ? secret.file : []))
}

/** Reads a file of roots. @throws ClientError CERT_CLIENT_UNTRUSTED */
export function readRoots(file: string): string {
  try {
    const pem = statSync(file).isFIFO() ? '' : readFileSync(file, 'utf8')
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return pem
    throw new ClientError('CERT_CLIENT_UNTRUSTED', `${file} holds no PEM certificate`)
  } catch (error) {
    if (error instanceof ClientError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new ClientError('CERT_CLIENT_UNTRUSTED', `${file} cannot be read (${code})`)
  }
}
