import { parseCertificate } from '@gatehouse/pki'
import { Type } from 'typebox'
import { type AcmeResponse, readJson, refuse } from './request.ts'
import type { Transport } from './transport.ts'

/** The window in which the CA suggests to renew a certificate (RFC 9773). Times are epoch milliseconds. */
export interface RenewalInfo {
  readonly start: number
  readonly end: number
  /** URL of a page with the reason. */
  readonly explanationUrl?: string
  /** Milliseconds until the next request: from a minute to half a day. */
  readonly retryAfterMs: number
}

/**
 * The ARI identifier of a certificate (RFC 9773 section 4.1): its authority key identifier, and its
 * serial number as encoded in DER, including a leading zero byte. Undefined for a certificate without
 * an authority key identifier.
 */
export function renewalId(certificate: Uint8Array): string | undefined {
  const { akid, serialNumber } = parseCertificate(certificate)
  return akid === undefined ? undefined : encodeId(akid, serialNumber)
}

function encodeId(akid: string, serialNumber: string): string {
  const sign = Number.parseInt(serialNumber.slice(0, 2), 16) < 0x80 ? '' : '00'
  const toBase64url = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')
  return `${toBase64url(akid)}.${toBase64url(sign + serialNumber)}`
}

const RENEWAL_ID = /^([\w-]{2,128})\.([\w-]{2,40})$/

/** Parses an ARI identifier to what it was made of, both in hex; undefined for a text that is none. */
export function parseRenewalId(
  text: string,
): { readonly akid: string; readonly serialNumber: string } | undefined {
  const parts = RENEWAL_ID.exec(text)?.slice(1) ?? []
  const [akid = '', serial = ''] = parts.map((part) =>
    Buffer.from(part, 'base64url').toString('hex'),
  )
  const serialNumber = serial.replace(/^00/, '')
  // There is one spelling alone, also of the number.
  const isOne = serialNumber !== '' && encodeId(akid, serialNumber) === text
  return isOne ? { akid, serialNumber } : undefined
}

/** Gets the renewal information of a certificate; undefined if the CA does not offer it. */
export async function fetchRenewalInfo(
  transport: Transport,
  id: string,
  signal?: AbortSignal,
): Promise<RenewalInfo | undefined> {
  const { renewalInfo } = await transport.directory(signal)
  if (!renewalInfo) return undefined
  const url = new URL(`${renewalInfo.href.replace(/\/$/, '')}/${id}`)
  return transport.get(url, readRenewalInfo, signal)
}

/** Picks a uniformly random time in the window; pick it once per window and store it. */
export function pickMoment({ start, end }: RenewalInfo, random: () => number): number {
  return Math.round(start + (end - start) * random())
}

const RenewalInfoSchema = Type.Object({
  explanationURL: Type.Optional(Type.String()),
  suggestedWindow: Type.Object({ start: Type.String(), end: Type.String() }),
})

/** Shown to people and logged. */
const EXPLANATION = /^https:\/\/[!-~]{1,1000}$/

const MINUTE = 60_000
const HOUR = 60 * MINUTE

export function readRenewalInfo(response: AcmeResponse): RenewalInfo {
  const info = readJson(response, RenewalInfoSchema, 'renewal information')
  const { suggestedWindow, explanationURL = '' } = info
  const start = Date.parse(suggestedWindow.start)
  const end = Date.parse(suggestedWindow.end)
  if (!(start < end)) throw refuse(response, 'answered with a window that does not end')
  return {
    start,
    end,
    ...(EXPLANATION.test(explanationURL) && { explanationUrl: explanationURL }),
    retryAfterMs: Math.min(Math.max(response.retryAfterMs ?? 6 * HOUR, MINUTE), 12 * HOUR),
  }
}
