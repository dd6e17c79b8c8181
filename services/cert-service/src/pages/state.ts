import type {
  CertificateRecord,
  CertificateState,
  OrderRecord,
  Way,
} from '@gatehouse/cert-store/port'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import type { Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { plain, say, type Text } from './say.ts'

/** The states of certificates as a filter names them, the worst last. */
export const STATE_NAMES: Readonly<Record<CertificateState, Text>> = {
  renews: 'Renews',
  due: 'Being renewed',
  unrenewed: 'Not renewed',
  failing: 'Failing',
  ended: 'Expired',
}

/** The filters of the inventory: a state, or certificates whose names are in others that end later, or are served by others. */
export type Filter = CertificateState | 'covered' | 'unserved'
export const FILTER_NAMES: Readonly<Record<Filter, Text>> = {
  ...STATE_NAMES,
  covered: 'Covered',
  unserved: 'Not served',
}

/** The path of a shape for each state, in a view box of 24 by 24. */
const SHAPES: Readonly<Record<Filter, string>> = {
  renews: 'm5 12.5 4.5 4.5L19 7.5',
  due: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5',
  unrenewed: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
  failing: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  ended: 'm6 6 12 12M18 6 6 18',
  covered: 'M4 12h16M4 7h16M4 17h16',
  unserved: 'M4 5h16v6H4zM4 14h16v5H4zM8 8h.1M8 16.5h.1',
}

/** Draws a state, which is told by more than its colour. */
export function shape(state: Filter): SafeHtml {
  return html`<svg class="shape" viewBox="0 0 24 24" aria-hidden="true"><path d="${SHAPES[state]}"/></svg>`
}

/** Tells in which state a certificate is, by the latest order of its request key. */
export function stateOf(
  { notAfter, renewAt }: Pick<CertificateRecord, 'notAfter' | 'renewAt'>,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): CertificateState {
  if (order?.status === 'failed') return 'failing'
  if (notAfter <= now) return 'ended'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}

export function wayText(lang: Language, { way, client }: CertificateRecord): SafeHtml {
  const wayName = way ? say(lang, WAYS[way]) : say(lang, 'not known')
  return way && client ? say(lang, '{way} by {who}', { way: wayName, who: client }) : wayName
}

const WAYS: Readonly<Record<Way, Text>> = {
  acme: 'ACME',
  api: 'the API',
  page: 'the inventory',
  service: 'the configuration',
}

export function issuerText(lang: Language, issuer: string): string {
  if (issuer === CLIENT_ISSUER) return plain(lang, 'the embedded CA, for clients')
  return issuer === 'ca' ? plain(lang, 'the embedded CA') : issuer
}
