import type { Search } from '@gatehouse/cert-store/port'
import { nameOrNone } from '@gatehouse/issuance/request'
import type { Name } from '@gatehouse/pki'
import { wildcardOf } from '../lookup/certificates.ts'

/** `SHA256 Fingerprint=…` and `serial=…`, as OpenSSL prints them. */
const LABEL = /^(?:sha-?256 fingerprint|fingerprint|serial(?: number)?) *[=:] */i
const HEX = /^(?:0x)?[0-9a-f]+$/i
const PAIRS = /^[0-9a-f]{2}(?:[: ][0-9a-f]{2})+$/i
const NON_ASCII = /[^\0-\x7f]/
// PostgreSQL has no text with NUL in it, and no name has a control character.
const CONTROL = /\p{Cc}/gu

export interface SearchQuery {
  readonly search: Search
  /** A whole host name or IP address. */
  readonly name?: Name | undefined
  /** SHA-256 of a certificate, in lower-case hexadecimal. */
  readonly fingerprint?: string | undefined
}

/**
 * Reads what was entered: part of a name, a whole name in any form, a URL, a serial number or a SHA-256
 * fingerprint, with colons or without. Undefined if it is empty.
 */
export function parseSearch(text: string): SearchQuery | undefined {
  const entered = text.replace(CONTROL, '').trim()
  if (entered === '') return undefined
  const digits = digitsOf(entered.replace(LABEL, ''))
  if (digits?.length === 64) return { search: {}, fingerprint: digits }
  const serial = digits === undefined ? {} : { serialNumber: serialOf(digits) }
  if (LABEL.test(entered) && digits !== undefined) return { search: serial }

  const host = hostOf(entered)
  const name = nameOrNone(host)
  const isWhole = name !== undefined && (name.ip !== undefined || name.labels.length > 1)
  const isMapped = isWhole || NON_ASCII.test(host)
  const part = (isMapped && name?.text) || host.toLowerCase()
  const wildcard = name && wildcardOf(name)
  const search = { part, ...(wildcard && { wildcard }), ...serial }
  return { search, name: isWhole ? name : undefined }
}

function digitsOf(text: string): string | undefined {
  if (HEX.test(text)) return text.toLowerCase().replace(/^0x/, '')
  return PAIRS.test(text) ? text.toLowerCase().replace(/[: ]/g, '') : undefined
}

/** Writes a serial number as X.509 tools do: whole octets, and none that is zero in front. */
function serialOf(digits: string): string {
  const even = digits.length % 2 ? `0${digits}` : digits
  return even.replace(/^(?:00)+(?=.)/, '')
}

/** Finds the host of a URL, or of what looks like the rest of one. */
function hostOf(text: string): string {
  const url = text.includes('://') ? URL.parse(text)?.hostname : undefined
  const host = url || text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '').replace(/[/?#].*/s, '')
  const bare = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1] ?? host.replace(/^([^:]*):\d*$/, '$1')
  return bare === '' ? text : bare
}
