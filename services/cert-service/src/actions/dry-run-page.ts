import { profileOf } from '@gatehouse/issuance/request'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Static } from 'typebox'
import { card, fact, toInventory } from '../pages/card.ts'
import { nameHref, orderHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { issuerText } from '../pages/state.ts'
import type { DryRunSchema } from '../schemas.ts'

type DryRun = Static<typeof DryRunSchema>

/** Shows what a request would lead to. @param confirm - the form that makes the request, if nothing is held yet */
export function dryRunPage(
  { domain, names, issuer, held, order, ...run }: DryRun,
  confirm?: SafeHtml,
): Page {
  const obstacles = html`<ul>${run.obstacles.map((one) => html`<li>${one}</li>`)}</ul>`
  const verdict =
    run.obstacles.length === 0
      ? notice('good', 'No obstacles were found.')
      : notice('bad', 'It would fail:', obstacles)
  const answer = held
    ? html`A request would return the stored certificate, <code>${held.serialNumber}</code>, valid until ${held.notAfter}.`
    : 'A request would order a new certificate.'
  const back = html`<p><a href="${nameHref(domain, profileOf({ issuer }))}">Back to ${domain}</a></p>`
  return card(
    `Dry run for ${domain}`,
    html`
      ${verdict}
      <p>${answer}</p>
      <dl>
        ${fact('Issuer', issuerText(issuer))}
        ${fact('Names', names.join(', '))}
        ${order ? fact('Order', html`<a href="${orderHref(order)}">${order.status}</a>`) : ''}
      </dl>
      ${proofs(run.proofs)}
      ${budgets(run.budgets)}
      <p>Nothing was ordered or changed.</p>
      ${confirm && !held ? html`${confirm}${toInventory}` : back}`,
  )
}

const PROOF_TONES = { ready: 'good', failed: 'bad', unchecked: 'warn' } as const

function proofs(proofs: DryRun['proofs']): SafeHtml | '' {
  if (proofs.length === 0) return html`<p>The issuer needs no proof for these names.</p>`
  const rows = proofs.map(({ name, challenge, status, detail }) =>
    notice(PROOF_TONES[status], `${name}: ${status}`, html`<p>${challenge}: ${detail}</p>`),
  )
  return html`<h2>Proofs</h2>${rows}`
}

function budgets(budgets: DryRun['budgets']): SafeHtml | '' {
  if (budgets.length === 0) return ''
  const rows = budgets.map(({ limit, subject, left, count, per, freeAt }) => {
    const next = freeAt === undefined ? '' : `, the next at ${freeAt}`
    return html`<li>${limit} for ${subject}: ${left} of ${count} left per ${per}${next}</li>`
  })
  return html`
    <h2>Limits of the CA</h2>
    <ul class="plain">${rows}</ul>`
}
