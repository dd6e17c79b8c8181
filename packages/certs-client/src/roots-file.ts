import type { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { attempt as orUndefined } from '@gatehouse/net'
import { UsageError } from '@gatehouse/service-kit/program'
import { fingerprintOf } from './certificate.ts'
import { ClientError } from './errors.ts'
import { attempt } from './folder.ts'
import type { Get } from './keep.ts'
import { pemOf, readRoots } from './roots.ts'
import type { ServiceConnection } from './settings.ts'
import { requireTrusted } from './trusted-folder.ts'

type Certificates = readonly X509Certificate[]
type Context = Pick<Get, 'clock' | 'log'>

const MAX_ROOTS = 16
/** The time for which the service has to name other roots, in ms: who answers in its place is noticed before. */
const PROBATION = 86_400_000

/**
 * Has a file of roots, if there is one, verify the connections to a service. It begins with the roots of `--ca`.
 * @throws UsageError; ClientError CERT_CLIENT_FILES, CERT_CLIENT_UNTRUSTED
 */
export function trustRootsFile(
  connection: ServiceConnection,
  file: string | undefined,
  log: Get['log'],
): ServiceConnection {
  const { url, caFile } = connection
  if (file === undefined) return connection
  if (url.protocol !== 'https:') throw new UsageError('--ca-out needs a service with TLS')
  attempt(file, () => requireTrusted(dirname(file)))
  if (!existsSync(file)) {
    if (caFile === undefined)
      throw new UsageError('--ca-out needs --ca, the roots that its file begins with')
    const roots = readRoots(caFile)
    attempt(file, () => write(file, roots))
    log.info({ file, added: roots.map(fingerprintOf) }, 'the file begins with the roots of --ca')
  }
  return { ...connection, caFile: file }
}

/**
 * Replaces a file of roots by others that the service has named for a day. They wait beside it, in a file whose time
 * says since when.
 * @param bundle - as it came over a connection that the roots of the file verify
 * @throws ClientError CERT_CLIENT_UNTRUSTED, CERT_CLIENT_FILES
 */
export function updateRootsFile(file: string, bundle: Certificates, { clock, log }: Context): void {
  const now = clock.now()
  const current = readRoots(file)
  const [added, removed] = [newIn(bundle, current), newIn(current, bundle)]
  const nextFile = `${file}.next`
  attempt(file, () => {
    if (added.length + removed.length === 0) {
      rmSync(nextFile, { force: true })
      return
    }
    if (added.length === bundle.length) throw refusal('no root that is in the file')
    requireRoots(bundle, now)
    const since = sinceOf(nextFile, bundle)
    if (since === undefined || since > now) {
      write(nextFile, bundle, file)
      utimesSync(nextFile, now / 1_000, now / 1_000)
      log.info({ file, added, removed }, 'the service names other roots, which have to last a day')
    } else if (now - since >= PROBATION) {
      write(file, bundle)
      rmSync(nextFile)
      log.info({ file, added, removed }, 'the file has the roots that the service names')
    }
  })
}

/** The fingerprints of the roots that are not among others. */
function newIn(roots: Certificates, others: Certificates): readonly string[] {
  const fingerprints = others.map(fingerprintOf)
  return roots.map(fingerprintOf).filter((root) => !fingerprints.includes(root))
}

/** The time of a file with these roots, in epoch milliseconds; undefined if there is none. */
function sinceOf(file: string, roots: Certificates): number | undefined {
  const content = orUndefined(() => readRoots(file)) ?? []
  const isSame = newIn(roots, content).length + newIn(content, roots).length === 0
  return isSame ? statSync(file).mtimeMs : undefined
}

/** @throws ClientError CERT_CLIENT_UNTRUSTED */
function requireRoots(bundle: Certificates, now: number): void {
  const isRoot = (root: X509Certificate) =>
    root.ca &&
    root.checkIssued(root) &&
    orUndefined(() => root.verify(root.publicKey)) &&
    root.validToDate.getTime() > now
  if (bundle.length > MAX_ROOTS) throw refusal(`more than ${MAX_ROOTS} roots`)
  if (!bundle.every(isRoot)) throw refusal('a certificate that is no root, or has ended')
}

function refusal(what: string): ClientError {
  const action = 'The file is unchanged. If the service is right, replace it yourself.'
  return new ClientError('CERT_CLIENT_UNTRUSTED', `the service names ${what}`, { action })
}

/** Puts roots in the place of a file, with the mode of another file, if that is there. */
function write(file: string, roots: Certificates, model = file): void {
  requireTrusted(dirname(file))
  const draft = `${file}.${process.pid}.new`
  rmSync(draft, { force: true })
  writeFileSync(draft, pemOf(roots), { flag: 'wx', flush: true })
  const stats = statSync(model, { throwIfNoEntry: false })
  chmodSync(draft, stats ? stats.mode & 0o777 : 0o644)
  renameSync(draft, file)
}
