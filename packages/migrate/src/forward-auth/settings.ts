import { parseHost } from '@gatehouse/net'
import { compileCondition } from '@gatehouse/profile'
import { durationText } from '@gatehouse/service-kit/config'
import { faultOf } from '@gatehouse/service-kit/rules'
import type { Draft, Path } from '../draft.ts'
import { goDurationMs, type SourceConfig, wholeSeconds } from '../source.ts'
import { PROVIDER } from './access.ts'

export const ONLY_HERE =
  'Only a proxy on this machine may ask. Otherwise list its address or host name: trustedProxies: [10.0.0.2]'

/** Lets nobody in before a person has decided: `allow: {}` is refused, in each portal. */
export function refuseAll(draft: Draft, why: string): void {
  for (let portal = 0; portal === 0 || draft.has(['portals', portal]); portal++) {
    draft.set(['portals', portal, 'allow'], {})
    draft.todo(['portals', portal, 'allow'], why)
  }
}

/** Sets who may come in, or a policy, and says whether it could. Lists that are too long for a condition let nobody in. */
export function setCondition(draft: Draft, path: Path, value: unknown, sources: string): boolean {
  const condition = typeof value === 'string' ? value : Object(value).condition
  const [fault] = condition === undefined ? [] : faultOf('', () => compileCondition(condition))
  if (fault === undefined) draft.set(path, value)
  else
    refuseAll(
      draft,
      `${sources} cannot be written as a condition (${fault.message}): give these people a group at the provider, and allow that.`,
    )
  return fault === undefined
}

export const slug = (text: string, length: number) =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, '-')
    .slice(0, length)

/** Shortens a title to the length that is valid here. */
export const shortened = (text: string) => text.slice(0, 60)

const MINUTE = 60_000
const LONGEST = 90 * 86_400_000

/** Reads the duration of a Go program, within the bounds of ours. */
export function boundedDuration(
  text: string,
  shortest = MINUTE,
  longest = LONGEST,
): string | undefined {
  const ms = goDurationMs(text)
  if (ms === undefined || ms <= 0) return undefined
  return durationText(wholeSeconds(Math.min(Math.max(ms, shortest), longest)))
}

/** Reads seconds, or a duration such as `1h` or `1 day and 2 hours`. */
export function readDuration(text: string, shortest?: number): string | undefined {
  const letters = text.replaceAll(/\s|and/g, '').replaceAll(/([a-z])[a-z]{2,}/g, '$1')
  const hours = letters.replaceAll(/(?<!\d)(\d+)d/g, (_, days) => `${days * 24}h`)
  return boundedDuration(/\d$/.test(hours) ? `${hours}s` : hours, shortest)
}

/** Reads host and port of an address such as `:4180` or `http://[::1]:4180`; undefined for a socket. */
export function readAddress(text = ''): { host: string; port: number } | undefined {
  const [, host = '', port = ''] = /^(?:https?:\/\/)?(.*):(\d{1,5})$/i.exec(text) ?? []
  if (port === '' || Number(port) > 65_535) return undefined
  return { host: host.replace(/^\[(.*)\]$/, '$1') || '0.0.0.0', port: Number(port) }
}

/** Reads cookie domains without the dot in front, and without those that another one covers. */
function cookieDomains(texts: readonly string[]): string[] {
  const names = texts.flatMap((text) => parseHost(text.replace(/^(\*?\.)+/, ''))?.name ?? [])
  return [...new Set(names)].filter(
    (name) => !names.some((parent) => parent !== name && name.endsWith(`.${parent}`)),
  )
}

/**
 * Sets `domains`. Without one, or a host of the sign-in pages that has no app, the place is marked: whoever controls an
 * app at that host could act for its people on the pages.
 * @param isApp - whether an app is at the host, also if it is not the domain itself
 * @returns the host of the sign-in pages, if it is known
 */
export function setDomains(
  draft: Draft,
  texts: readonly string[],
  host = '',
  isApp = false,
): string | undefined {
  const domains = cookieDomains(texts)
  const authHost = isApp || domains.includes(host) ? '' : host
  const rows = domains.map((domain) => ({ domain, authHost }))
  draft.set(['domains'], rows)
  if (rows.length === 0)
    draft.todo(
      ['domains'],
      'name the domain of your apps and the host of the sign-in pages: [{ domain: example.com, authHost: auth.example.com }].',
    )
  else if (authHost === '')
    draft.todo(
      ['domains', 0, 'authHost'],
      'name a host for the sign-in pages that has no app, such as auth.example.com, and route it to Gatehouse. ' +
        'If it is the domain itself, whoever controls an app there can act for its people: docs/security.md.',
    )
  return authHost || undefined
}

export const isOn = (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`)

/** Sets the secret of a provider, as a file. @param names - the settings: the secret itself, or its file */
export function setClientSecret(
  source: SourceConfig,
  draft: Draft,
  provider: Path,
  names: readonly string[],
  file = 'client-secret',
): void {
  const [secret, secretFile] = names.map((name) => source.take(name))
  const path = [...provider, 'clientSecretFile']
  if (secret) draft.secret(path, file, secret)
  else draft.copy(path, secretFile)
}

export function askForIssuer(draft: Draft, theirs: string): void {
  if (!draft.has([...PROVIDER, 'issuerUrl']))
    draft.todo(
      [...PROVIDER, 'type'],
      `issuerUrl is missing: give the issuer of an OpenID Connect provider in place of ${theirs}.`,
    )
}

/** Trusts addresses as other programs do: unless the provider says that one is not verified, or always. */
export function trustEmail(draft: Draft, trusted: true | 'unlessFalse'): void {
  draft.set([...PROVIDER, 'trustEmail'], trusted)
  const unless = trusted === true ? '' : ' unless the provider says that it is not verified'
  draft.comment(
    [...PROVIDER, 'trustEmail'],
    `An address counts${unless}, as before. Remove this if people can choose their address themselves.`,
  )
}

/** Gives the step about the redirect URI, if its host is known. */
export function redirectStep(authHost: string | undefined, provider: string): string {
  const step = 'Register the redirect URI at the provider, next to the old one'
  if (authHost === undefined) return `${step}; check-config prints it.`
  return `${step}: https://${authHost}/portals/main/providers/${provider}/callback`
}
