import { type Authority, createRoot, loadAuthority, readConstraints } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { toTime } from '../times.ts'
import { type AuthorityOptions, type StoredAuthority, YEAR } from './authority-rows.ts'

/** What an operator brings to begin a roll, PEM. */
export interface NextRoot {
  /** The new root, with its key; one is made if there is none. */
  readonly root?: string | undefined
  readonly key?: string | undefined
  /** The key of the root that signs now, if it is offline. */
  readonly signerKey?: string | undefined
  /** Whether clients that trust only the old root are to accept what is below the new one. */
  readonly isCrossed: boolean
}

/**
 * Opens the new root that an operator brings, or makes one.
 * @param roots - those of now and before
 * @throws IssuanceError CERT_ROLL_ROOT; PkiError
 */
export async function openNextRoot(
  { root, key }: NextRoot,
  { name, root: configured }: Pick<AuthorityOptions, 'name' | 'root'>,
  roots: readonly StoredAuthority[],
  now: number,
): Promise<Authority> {
  if (root === undefined) {
    if (configured)
      refuseRoot('`ca.root` is your own root: send the new one along, with its private key')
    if (key !== undefined) refuseRoot('there is a private key without its root')
    return createRoot({ commonName: numbered(`${name} Root CA`, roots), now })
  }
  if (key === undefined) return refuseRoot('the private key of the new root is missing')
  const next = loadAuthority({ certificate: root, key, now })
  requireRoot(next, now)
  requireDistinct(next, roots)
  return next
}

function requireRoot(next: Authority, now: number): void {
  const { certificate, anchor, info, ends } = next
  if (nameOf(next) === '') refuseRoot('the new root has an empty name: give it one')
  if (!anchor?.equals(certificate)) refuseRoot(`${nameOf(next)} is not signed by itself`)
  if (info.pathLength === 0) refuseRoot(`${nameOf(next)} may sign leaves only`)
  // Once it has ended, it can neither be used nor replaced.
  if (ends - now < YEAR)
    refuseRoot(`${nameOf(next)} ends at ${toTime(ends)}: it has to last for a year or more`)
}

/** Requires what tells it from the roots of before, and that it does not permit less. */
function requireDistinct(next: Authority, roots: readonly StoredAuthority[]): void {
  const { info } = next
  const limits = limitsOf(next)
  if (limits && !roots.some(({ authority }) => limitsOf(authority) === limits))
    refuseRoot(
      `${nameOf(next)} permits ${limits}: bring one without name constraints, and set \`ca.permitted\``,
    )
  for (const { authority } of roots) {
    if (authority.info.spki.equals(info.spki) || authority.info.skid === info.skid)
      refuseRoot(`${nameOf(authority)} has the same key`)
    if (authority.info.subjectDer.equals(info.subjectDer))
      refuseRoot(`a root is called ${nameOf(next)} already: give the new one another name`)
  }
}

/** The names that a root permits and excludes; empty if it permits all. */
const limitsOf = ({ certificate }: Authority): string => readConstraints([certificate]).text

/** The name of a root, with a number that no other one has. */
function numbered(name: string, roots: readonly StoredAuthority[]): string {
  const names = new Set(roots.map(({ authority }) => nameOf(authority)))
  let number = roots.length + 1
  while (names.has(`CN=${name} ${number}`)) number += 1
  return `${name} ${number}`
}

/** The subject of a root on one line. */
export function nameOf(authority: Authority | undefined): string {
  return authority?.info.subject.replaceAll('\n', ', ') ?? ''
}

/** @throws IssuanceError CERT_ROLL_ROOT */
export function refuseRoot(why: string, cause?: Error): never {
  throw new IssuanceError('CERT_ROLL_ROOT', why, { cause })
}
