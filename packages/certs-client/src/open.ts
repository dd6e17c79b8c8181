import { type Clock, createFetch } from '@gatehouse/net'
import type { Profile } from '@gatehouse/pki'
import { isExposed, openCredentials, type Source } from './credentials.ts'
import { createTrustingFetch, openRoots, type Roots } from './roots.ts'
import { type ActionFor, type CertService, connect } from './service.ts'
import type { ServiceConnection } from './settings.ts'

interface ServiceContext {
  readonly clock: Pick<Clock, 'now'>
  readonly actionFor: ActionFor
  readonly log: { warn(fields: object, message: string): void }
  readonly signal?: AbortSignal
  readonly profile?: Profile | undefined
}

/** Opens the API of a service, with connections that are closed at the end, and the roots that are trusted instead of the system's. */
export function openService(
  { url, caFile, source }: ServiceConnection,
  { clock, log, signal, actionFor, profile }: ServiceContext,
): CertService &
  AsyncDisposable & { readonly roots: Roots | undefined; readonly files: readonly string[] } {
  // Files of tokens are left out: Kubernetes makes them readable within the pod.
  if (source.kind !== 'token') for (const file of filesOf(source)) warnIfExposed(file, log)
  const files = [...filesOf(source), ...(caFile === undefined ? [] : [caFile])]
  const roots = caFile === undefined ? undefined : openRoots(caFile, log)
  const fetch = roots ? createTrustingFetch(roots) : createFetch()
  // Issuers of tokens have certificates of their own, which the roots of this service say nothing about.
  const issuerFetch = createFetch()
  const credentials = openCredentials(source, { fetch: issuerFetch, now: clock.now })
  const service = connect({ url, credentials, fetch, now: clock.now, signal, actionFor, profile })
  const close = async () => void (await Promise.all([fetch.close(), issuerFetch.close()]))
  return Object.assign(service, { roots, files, [Symbol.asyncDispose]: close })
}

/** Warns of a file with a secret that everybody may read. */
export function warnIfExposed(file: string, log: ServiceContext['log']): void {
  if (isExposed(file))
    log.warn({ file }, 'every user of this machine may read this file: chmod 600')
}

function filesOf(source: Source): readonly string[] {
  const secrets = [
    source.kind === 'key' && source.key,
    source.kind === 'token' && source.token,
    source.kind === 'client' && source.clientSecret,
  ]
  return secrets.flatMap((secret) => (secret && 'file' in secret ? secret.file : []))
}
