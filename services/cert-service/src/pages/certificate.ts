import { html, type SafeHtml } from '@remix-run/html-template'
import { failure } from './failures.ts'
import type { Row } from './inventory.ts'
import { momentOf, type State, stateOf } from './state.ts'
import { texts } from './texts.ts'
import { bar, type TimeLine } from './timeline.ts'
import { when, whenFromNow } from './words.ts'

/** Outlines on a field of 24 by 24. */
const ICONS: Readonly<Record<State, string>> = {
  renews: 'm5 12.5 4.5 4.5L19 7.5',
  due: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5',
  unrenewed: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
  failing: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  ended: 'm6 6 12 12M18 6 6 18',
}

/** A line of the inventory, which opens to everything that is known of the certificate. */
export function certificate({ record, order }: Row, line: TimeLine): SafeHtml {
  const state = stateOf(record, order, line.now)
  const [first, ...others] = record.names
  const more = others.length > 0 ? html`<small>${texts.others(others.length)}</small>` : ''
  return html`<li class="${state}"><details><summary class="row"><span class="name"><b>${first}</b>${more}</span>${bar(record, line)}<span class="state"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[state]}"/></svg><span>${outlook(state, record, line.now)}</span></span></summary>
<div class="facts">${order?.status === 'failed' ? html`<div>${failure(order, line.now)}</div>` : ''}${record.renewAt === null ? html`<p>${texts.abandoned}</p>` : ''}${facts(record)}</div></details></li>
`
}

/** What happens to a certificate next, and when. */
function outlook(state: State, record: Row['record'], now: number): SafeHtml {
  if (state === 'due') return html`${texts.state.due}`
  return html`${texts.state[state]} ${whenFromNow(momentOf(state, record), now)}`
}

function facts(record: Row['record']): SafeHtml {
  const { names, issuer, serialNumber, keyType, csr, notBefore, notAfter, renewAt } = record
  const label = texts.facts
  return html`<dl>
<div class="wide"><dt>${label.names}</dt><dd>${names.map((name) => html`<span>${name}</span> `)}</dd></div>
${fact(label.from, when(notBefore))}${fact(label.until, when(notAfter))}${fact(label.renewal, renewAt === null ? label.none : when(renewAt))}
${fact(label.fetched, when(record.fetchedAt))}${fact(label.issuer, issuer === 'ca' ? texts.embedded : issuer)}${fact(label.key, csr ? `${keyType}, ${texts.csr}` : keyType)}
<div class="wide"><dt>${label.serial}</dt><dd><code>${serialNumber}</code></dd></div>
</dl>`
}

function fact(label: string, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}
