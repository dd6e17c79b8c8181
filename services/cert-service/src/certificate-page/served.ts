import type { CertificateRecord, ProbeRecord, ProbeState } from '@gatehouse/cert-store/port'
import { formatHostPort, parseHost } from '@gatehouse/net'
import { type Language, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { icon, type Tone } from '../pages/notice.ts'
import { say, type Text } from '../pages/say.ts'
import type { ServedWord } from '../probe/shown.ts'

const STATES: Readonly<Record<ProbeState | 'notSeen', readonly [tone: Tone, text: Text]>> = {
  newest: ['good', 'The newest certificate is served.'],
  older: ['bad', 'An older certificate is served.'],
  other: ['bad', 'A certificate of another issuer is served.'],
  revoked: ['bad', 'A revoked certificate is served.'],
  ended: ['bad', 'An expired certificate is served.'],
  incomplete: [
    'warn',
    'The newest certificate is served, without the intermediates that lead to a root.',
  ],
  wrongName: ['warn', 'A certificate for other names is served.'],
  unreachable: ['past', 'No certificate was seen.'],
  notSeen: ['past', 'No certificate was seen.'],
  outside: ['past', 'The address is outside of the networks of the configuration.'],
}
const RELOAD = 'The new one was fetched {when}. Reload the server.'

/** Says what is served under the names of a certificate: at each place, or in a word for readers who may not know places. */
export function servedPlaces(
  lang: Language,
  record: CertificateRecord,
  { served, places }: { readonly served: ServedWord; readonly places: readonly ProbeRecord[] },
): SafeHtml {
  if (places.length === 0) return html`<p>${say(lang, STATES[served][1])}</p>`
  const rows = places.map((probe) => {
    const { name, host, address, port, protocol, state, since, seenAt, reporter } = probe
    const { issuer, notBefore, notAfter } = probe
    const [tone, text] = STATES[state]
    const place = formatHostPort({ host: parseHost(address) ?? { name: address || host }, port })
    const labels = [...new Set([protocol, name, host])].filter((label) => label !== address)
    const caller = html`<code>${reporter}</code>`
    const teller = reporter && html` (${say(lang, 'its machine says so, as {caller}', { caller })})`
    const fetched = { when: writeTime(lang, record.fetchedAt) }
    const validity =
      notBefore !== null &&
      notAfter !== null &&
      html`${writeTime(lang, notBefore)} – ${writeTime(lang, notAfter)}, ${issuer}; `
    const times = { since: writeTime(lang, since), seen: writeTime(lang, seenAt) }
    return html`
      <li class="${tone}">${icon(tone)}<div><code>${place}</code> ${labels.join(', ')}${teller}
        <p>${say(lang, text)} ${state === 'older' ? say(lang, RELOAD, fetched) : ''}</p>
        <p class="muted">${validity || ''}${say(lang, 'since {since}, seen {seen}', times)}</p></div></li>`
  })
  return html`<ul class="past">${rows}</ul>`
}
