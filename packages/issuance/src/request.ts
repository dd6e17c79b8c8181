import { createPublicKey } from 'node:crypto'
import { isRocaKey } from '@gatehouse/auth-core'
import {
  CLIENT_ISSUER,
  type OrderRecord,
  type Origin,
  type Store,
  type Succession,
} from '@gatehouse/cert-store/port'
import { TitledError } from '@gatehouse/net'
import {
  BACKDATE,
  type Csr,
  type KeyType,
  type Name,
  PkiError,
  type Profile,
  parseClientName,
  parseCsr,
  parseName,
  readKnownCsr,
} from '@gatehouse/pki'
import { durationText } from '@gatehouse/service-kit/config'
import { indexable } from '@gatehouse/store'
import { LRUCache } from 'lru-cache'
import { IssuanceError, type IssuanceErrorCode } from './errors.ts'
import type { Issuer } from './issuers/issuer.ts'
import { HOUR, type Validity } from './times.ts'

export { isEmbedded } from './options/issuers.ts'
export { CLIENT_ISSUER }

export const MAX_NAMES = 100
/** The profile of server certificates in request keys; certificates of clients have another issuer there. */
const PROFILE = 'server'

export interface IssuanceRequest extends Succession {
  readonly requestKey: string
  readonly issuer: Issuer
  /** The profile of its issuer, which stays the same for a request. */
  readonly profile: Profile
  /** The requested domain first; no name twice. */
  readonly names: readonly Name[]
  readonly keyType: KeyType
  /** The PKCS#10 request of the caller; `null` if the key is ours. */
  readonly csr: Csr | null
  /** The requested end, in ms since the epoch. Default: the issuer decides. */
  readonly notAfter?: number | undefined
  /** The longest that it may live, in ms: not part of the request key. Default: likewise. */
  readonly lifetime?: number | undefined
  /** Whether only the names are proven, for a certificate that is requested later. */
  readonly isPreparation?: true
}

/** Names, and the issuer that is to have them proven. */
export type NamesOfIssuer = Pick<IssuanceRequest, 'issuer' | 'names' | 'predecessor'>

/** The one on whose behalf something is done, as the audit trail names it. */
export interface Actor extends Origin {
  /** `psk:<key name>`, `mtls:<name>`, `jwt:<issuer>#<subject>` or `system`. */
  readonly actor: string
  readonly remoteAddress?: string
  readonly requestId?: string
  /** Whether it has a key that is not limited to names. */
  readonly isOperator?: boolean
}

export interface RequestFields {
  readonly domain: string
  readonly names?: readonly string[] | undefined
  /** The CSR, in PEM or parsed. */
  readonly csr?: string | Csr | undefined
  readonly keyType?: KeyType | undefined
  /** Default: `server`. */
  readonly profile?: Profile | undefined
  /** The requested end, within what its issuer allows. */
  readonly notAfter?: number | undefined
  /** The longest that it may live, in ms, likewise. */
  readonly lifetime?: number | undefined
}

/**
 * Reads a request: normalises the names, chooses the issuer, checks the proof of possession and makes
 * the request key. The names of a `csr` count like those in `names`. `authorize` throws for names that the
 * caller may not have, before anything about issuers is revealed, and gives the longest lifetime, or `Infinity`. With
 * `obstacles`, a request without an issuer is described there and not refused.
 * @throws PkiError or IssuanceError whose `errors` point to the member at fault
 */
export function parseRequest(
  fields: RequestFields,
  issuers: Issuers,
  authorize: (names: readonly Name[]) => number,
  obstacles?: string[],
): IssuanceRequest {
  const { entries, csr } = readFields(fields)
  const names = entries.map(({ name }) => name)
  const byRule = authorize(names)
  const issuer = issuers.choose(names, fields.profile)
  const claimed = issuers.findClaimed(names, fields.profile)
  const place = entries.find(({ name }) => name.text === claimed?.name.text)?.pointer ?? ''
  if (claimed && obstacles) obstacles.push(describeClaim(claimed))
  else if (claimed) refuse(place, 'CERT_NO_ISSUER', describeClaim(claimed))
  for (const { name, pointer } of entries)
    if (issuer.permits?.(name) === false)
      refuse(
        pointer,
        'CERT_NOT_PERMITTED',
        `${name.text} is outside of ${issuer.scopeFor?.(name)}, and no other issuer signs all of the names`,
      )
  const objection = issuer.objection?.(names, csr)
  if (objection !== undefined) refuse(csr ? '/csr' : '/domain', 'CERT_NOT_PERMITTED', objection)
  const chosen = csr?.keyType ?? fields.keyType ?? issuer.keyType ?? 'p256'
  if (!certifies(issuer, chosen))
    refuse(csr ? '/csr' : '/keyType', 'CERT_KEY_TYPE_REFUSED', notCertified(issuer, chosen))
  const lifetime = lifetimeOf(issuer, fields.lifetime, byRule)
  return complete(issuer, { names, keyType: chosen, csr, notAfter: fields.notAfter, lifetime })
}

/** The lifetime that is asked for, or else the longest that its caller may have. @throws IssuanceError `CERT_LIFETIME_REFUSED` */
function lifetimeOf({ name, longest = 0 }: Issuer, lifetime: number | undefined, allowed: number) {
  if (lifetime === undefined) return allowed === Infinity ? undefined : allowed
  const most = Math.min(longest, allowed)
  if (lifetime >= HOUR && lifetime <= most) return lifetime
  const why =
    most > 0 ? `it has to be from 1h to ${durationText(most)}` : `the CA behind ${name} decides`
  return refuse('/lifetime', 'CERT_LIFETIME_REFUSED', why)
}

/** Reads the CSR, and each name once with a JSON pointer to the member that has it first. */
function readFields({ domain, names = [], csr: input, keyType, profile }: RequestFields) {
  const entries = new Map<string, { name: Name; pointer: string }>()
  const add = (text: string, pointer: string) => {
    const name = pointingTo(pointer, () => readName(text, profile))
    if (!entries.has(name.text)) entries.set(name.text, { name, pointer })
  }
  add(domain, '/domain')
  for (const [index, text] of names.entries()) add(text, `/names/${index}`)
  const csr =
    typeof input === 'string' ? pointingTo('/csr', () => parseCsr(input, profile)) : (input ?? null)
  if (csr) {
    if (keyType !== undefined && keyType !== csr.keyType)
      refuse('/keyType', 'CERT_KEY_TYPE_CONFLICT', `the CSR has a ${csr.keyType} key`)
    for (const { text } of csr.names) add(text, '/csr')
    if (entries.size > MAX_NAMES)
      throw pointTo('/csr', new PkiError('PKI_CSR_INVALID', `more than ${MAX_NAMES} names in all`))
  }
  return { entries: [...entries.values()], csr }
}

export type Issuers = ReturnType<typeof createIssuers>

/**
 * @param claimOf - the issuer that is there for a name although no rule of it may match
 * @param clients - the issuer of all certificates of clients
 */
export function createIssuers(
  configured: readonly Issuer[],
  fallback: Issuer,
  claimOf: (name: Name) => string | undefined = () => undefined,
  clients?: Issuer,
) {
  const issuers = [...configured, fallback, ...(clients ? [clients] : [])]
  const byName = new Map(issuers.map((issuer) => [issuer.name, issuer]))
  const choose = (names: readonly Name[], profile: Profile | undefined): Issuer => {
    if (profile === 'client') return clients ?? refuse('/profile', 'CERT_NO_ISSUER', NO_CLIENTS)
    return configured.find((issuer) => permitsAll(issuer, names)) ?? fallback
  }
  return {
    /** The first that may sign all of the names; the fallback if none may. */
    choose,
    /** The first of the names that the fallback must not sign, as another issuer is there for it. */
    findClaimed(names: readonly Name[], profile?: Profile) {
      if (choose(names, profile) !== fallback) return undefined
      for (const name of names) {
        const issuer = byName.get(claimOf(name) ?? '')
        if (issuer) return { name, issuer }
      }
      return undefined
    },
    find: (name: string) => byName.get(name),
    names: (): readonly string[] => [...byName.keys()],
    /** The digests of what they are configured with. */
    configurations: () => issuers.flatMap(({ configuration = [] }) => configuration),
    /** Apart from the embedded CA. */
    degraded: () => configured.flatMap((issuer) => issuer.degraded?.() ?? []),
  }
}

const NO_CLIENTS = 'no issuer signs certificates of clients'

/** The request that a certificate or order was made for. */
type Stored = Pick<OrderRecord, 'issuer' | 'names' | 'keyType' | 'csr' | 'lifetime'>
/** The content of a certificate, whichever issuer signs it. */
type Certified = Pick<IssuanceRequest, 'names' | 'keyType' | 'csr' | 'notAfter' | 'lifetime'>

/** The profile of a certificate or order, by its issuer. */
export const profileOf = ({ issuer }: { readonly issuer: string }): Profile =>
  issuer === CLIENT_ISSUER ? 'client' : 'server'

/** The request that a stored certificate or order was made for, to its own issuer. */
export function restoreRequest(
  stored: Stored,
  issuers: Issuers,
  notAfter?: number,
): IssuanceRequest | undefined {
  const issuer = issuers.find(stored.issuer)
  return issuer && requestTo(issuer, { ...restore(stored), notAfter })
}

/** The request that a stored certificate or order would be made for today. */
export function rerouteRequest(stored: Stored, issuers: Issuers): IssuanceRequest | undefined {
  const restored = restore(stored)
  const profile = profileOf(stored)
  if (issuers.findClaimed(restored.names, profile)) return undefined
  return requestTo(issuers.choose(restored.names, profile), restored)
}

/** The same certificate from another issuer; undefined if that issuer cannot sign it. */
export function requestTo(issuer: Issuer, certified: Certified): IssuanceRequest | undefined {
  const { names, keyType, csr, notAfter } = certified
  if (notAfter !== undefined && !issuer.latestEnd) return undefined
  const signs = permitsAll(issuer, names) && !issuer.objection?.(names, csr)
  return signs && certifies(issuer, keyType) ? complete(issuer, certified) : undefined
}

/**
 * The members that two requests for the same certificate share: issuer, profile, the type of the key (or
 * the caller's own key), the set of names, and the end if it was asked for. If that is too long for an index of the
 * store, its digest.
 */
export function requestKeyOf({
  issuer: { name, profile = PROFILE },
  names,
  keyType,
  csr,
  notAfter,
}: Pick<IssuanceRequest, 'names' | 'keyType' | 'notAfter'> & {
  readonly issuer: Pick<Issuer, 'name' | 'profile'>
  readonly csr: Pick<Csr, 'spkiSha256'> | null
}): string {
  const sorted = names.map(({ text }) => text).sort()
  const until = notAfter === undefined ? [] : [String(notAfter)]
  const parts = [name, profile, csr?.spkiSha256 ?? keyType, sorted.join(','), ...until]
  return indexable(parts.join('|'))
}

/** Whether a certificate lives longer than it may by a request, which then has it replaced. */
export function livesTooLong(
  { notBefore, notAfter }: Validity,
  { issuer, lifetime, notAfter: end }: Pick<IssuanceRequest, 'issuer' | 'lifetime' | 'notAfter'>,
): boolean {
  if (lifetime === undefined || end !== undefined || issuer.longest === undefined) return false
  return notAfter - notBefore - BACKDATE > lifetime
}

/** A certificate to renew for somebody whose certificates live for so many ms at most. */
export function limitLifetime<One extends Validity & Pick<Stored, 'lifetime'>>(
  record: One,
  longest: number,
): One {
  const { notBefore, notAfter, lifetime = notAfter - notBefore - BACKDATE } = record
  return longest < lifetime ? { ...record, lifetime: longest } : record
}

/** The work of proving names ahead, of which there is one for an issuer and a set of names. */
export function preparationOf({ issuer, names, predecessor }: NamesOfIssuer): IssuanceRequest {
  const { name, profile = PROFILE } = issuer
  const sorted = names.map(({ text }) => text).sort()
  const requestKey = indexable(['prepare', name, profile, sorted.join(',')].join('|'))
  const request = { requestKey, issuer, names, predecessor, profile: 'server' } as const
  return { ...request, keyType: 'p256', csr: null, isPreparation: true }
}

/**
 * Refuses the key of a CSR that others may know.
 * @throws IssuanceError `CERT_KEY_COMPROMISED` if it was revoked as compromised; PkiError `PKI_KEY_WEAK`
 * if it can be computed (CVE-2017-15361)
 */
export async function refuseCompromised(
  { csr }: Pick<IssuanceRequest, 'csr'>,
  store: Pick<Store, 'isCompromised'>,
): Promise<void> {
  if (!csr) return
  const { keyType, spki: key, spkiSha256 } = csr
  const isRsa = keyType.startsWith('rsa')
  const why = 'its RSA key can be computed from the public key (CVE-2017-15361)'
  if (isRsa && isRocaKey(createPublicKey({ key, format: 'der', type: 'spki' })))
    throw pointTo('/csr', new PkiError('PKI_KEY_WEAK', why))
  if (await store.isCompromised(spkiSha256))
    refuse('/csr', 'CERT_KEY_COMPROMISED', 'its key was revoked as compromised')
}

function restore(stored: Stored): Certified {
  const { names, keyType, csr, lifetime } = stored
  const profile = profileOf(stored)
  return {
    lifetime,
    names: names.map((text) => readName(text, profile)),
    keyType,
    csr: csr && readKnownCsr(csr, profile),
  }
}

function complete(issuer: Issuer, certified: Certified): IssuanceRequest {
  const { names, keyType, csr, notAfter, lifetime } = certified
  const profile = profileOf({ issuer: issuer.name })
  const certificate = { issuer, profile, names, keyType, csr, notAfter, lifetime }
  return { requestKey: requestKeyOf(certificate), ...certificate }
}

const permitsAll = (issuer: Issuer, names: readonly Name[]): boolean =>
  names.every((name) => issuer.permits?.(name) ?? true)

function certifies({ keyTypes }: Issuer, keyType: KeyType): boolean {
  return keyTypes?.includes(keyType) ?? true
}

function describeClaim({ name, issuer }: { name: Name; issuer: Issuer }): string {
  return (issuer.permits?.(name) ?? true)
    ? `${name.text} is for the issuer ${issuer.name}, which does not sign all of the other names`
    : `${name.text} is in a domain of the issuer ${issuer.name}, but no rule in its \`names\` matches it`
}

function notCertified({ name, keyTypes = [] }: Issuer, keyType: KeyType): string {
  return `the issuer ${name} certifies no ${keyType} keys, only ${keyTypes.join(', ')}`
}

function refuse(pointer: string, code: IssuanceErrorCode, detail: string): never {
  throw pointTo(pointer, new IssuanceError(code, detail))
}

/** Names that were parsed lately: callers and the store have the same ones again and again. */
const parsed = {
  server: new LRUCache<string, Name>({ max: 10_000, memoMethod: parseName }),
  client: new LRUCache<string, Name>({ max: 10_000, memoMethod: parseClientName }),
}

/** Reads a name of a certificate of that profile. @throws PkiError `PKI_NAME_INVALID` */
export function readName(text: string, profile: Profile = 'server'): Name {
  return parsed[profile].memo(text)
}

/** Undefined if a text is no name. */
export function nameOrNone(text: string, profile?: Profile): Name | undefined {
  try {
    return readName(text, profile)
  } catch (error) {
    if (error instanceof PkiError) return undefined
    throw error
  }
}

/** Runs a step whose errors are about one member of the body. */
export function pointingTo<T>(pointer: string, step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw pointTo(pointer, error)
  }
}

function pointTo(pointer: string, error: unknown): unknown {
  if (!(error instanceof PkiError || error instanceof TitledError)) return error
  return Object.assign(error, { errors: [{ pointer, detail: error.message }] })
}
