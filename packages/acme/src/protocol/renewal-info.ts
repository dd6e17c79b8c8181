import { parseCertificate } from '@gatehouse/pki'
import { Type } from 'typebox'
import { type Answer, readJson, refuse } from './answer.ts'
import type { Transport } from './transport.ts'

/** When the CA would like a certificate to be renewed (RFC 9773). Times are epoch milliseconds. */
export interface RenewalInfo {
  readonly start: number
  readonly end: number
  /** Page of the CA that says why. */
  readonly explanationUrl?: string
  /** Milliseconds until the CA wants to be asked again: from a minute to half a day. */
  readonly retryAfterMs: number
}

/**
 * How renewal information and `replaces` name a certificate (RFC 9773 section 4.1): its authority
 * key identifier, and its serial number as it stands in DER, so with a leading zero if it has one.
 * Undefined for a certificate without an authority key identifier.
 */
export function renewalId(certificate: Uint8Array): string | undefined {
  const { akid, serialNumber } = parseCertificate(certificate)
  if (akid === undefined) return undefined
  const sign = Number.parseInt(serialNumber.slice(0, 2), 16) < 0x80 ? '' : '00'
  const toBase64url = (hex: string) => Buffer.from(hex, 'hex').toString('base64url')
  return `${toBase64url(akid)}.${toBase64url(sign + serialNumber)}`
}

/** Asks the CA; undefined if it offers no renewal information. */
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

/** One moment within the window, evenly drawn; to be drawn once for each window and kept. */
export function pickMoment({ start, end }: RenewalInfo, random: () => number): number {
  return Math.round(start + (end - start) * random())
}

const RenewalInfoSchema = Type.Object({
  explanationURL: Type.Optional(Type.String()),
  suggestedWindow: Type.Object({ start: Type.String(), end: Type.String() }),
})

/** It is shown to people and written to the log. */
const EXPLANATION = /^https:\/\/[!-~]{1,1000}$/

const MINUTE = 60_000
const HOUR = 60 * MINUTE

export function readRenewalInfo(answer: Answer): RenewalInfo {
  const { suggestedWindow, explanationURL = '' } = readJson(
    answer,
    RenewalInfoSchema,
    'renewal information',
  )
  const start = Date.parse(suggestedWindow.start)
  const end = Date.parse(suggestedWindow.end)
  if (!(start < end)) throw refuse(answer, 'answered with a window that does not end')
  return {
    start,
    end,
    ...(EXPLANATION.test(explanationURL) && { explanationUrl: explanationURL }),
    retryAfterMs: Math.min(Math.max(answer.retryAfterMs ?? 6 * HOUR, MINUTE), 12 * HOUR),
  }
}
