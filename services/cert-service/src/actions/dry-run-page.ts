import { profileOf } from '@gatehouse/issuance/request'
import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { card, fact, type Reader, toInventory } from '../pages/card.ts'
import { nameHref, orderHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { english, plain, say } from '../pages/say.ts'
import { issuerText } from '../pages/state.ts'
import type { DryRun } from '../schemas.ts'
import { actionLinks } from './page.ts'

/** Shows what a request would lead to. @param confirm - the form that makes the request, if nothing is held yet */
export function dryRunPage(
  reader: Reader,
  { domain, names, issuer, held: stored, order, ...run }: DryRun,
  confirm?: SafeHtml,
): Page {
  const { lang } = reader
  const obstacles = html`<ul>${run.obstacles.map((obstacle) => html`<li>${english(obstacle)}</li>`)}</ul>`
  const verdict =
    run.obstacles.length === 0
      ? notice('good', say(lang, 'No obstacles were found.'))
      : notice('bad', say(lang, 'It would fail:'), obstacles)
  const answer = stored
    ? say(lang, 'A request would return the stored certificate, {serial}, valid until {time}.', {
        serial: html`<code>${stored.serialNumber}</code>`,
        time: stored.notAfter,
      })
    : say(lang, 'A request would order a new certificate.')
  const back = html`<p><a href="${nameHref(domain, profileOf({ issuer }))}">${say(lang, 'Back to {domain}', { domain })}</a></p>`
  return card(
    reader,
    plain(lang, 'Check of {domain}', { domain }),
    html`
      ${verdict}
      <p>${answer}</p>
      <dl>
        ${fact(say(lang, 'Issuer'), issuerText(lang, issuer))}
        ${fact(say(lang, 'Names'), names.join(', '))}
        ${order ? fact(say(lang, 'The order'), html`<a href="${orderHref(order)}">${english(order.status)}</a>`) : ''}
      </dl>
      ${order?.status === 'failed' ? actionLinks(lang, ['retry'], { domain, profile: profileOf({ issuer }) }) : ''}
      ${proofs(lang, run.proofs)}
      ${budgets(lang, run.budgets)}
      <p>${say(lang, 'Nothing was ordered or changed.')}</p>
      ${confirm && !stored ? html`${confirm}${toInventory(lang)}` : back}`,
  )
}

const PROOF_TONES = { ready: 'good', failed: 'bad', unchecked: 'warn' } as const

function proofs(lang: Language, proofs: DryRun['proofs']): SafeHtml | '' {
  if (proofs.length === 0)
    return html`<p>${say(lang, 'The issuer needs no proof for these names.')}</p>`
  const rows = proofs.map(({ name, challenge, status, detail }) =>
    notice(
      PROOF_TONES[status],
      html`${name}: ${say(lang, status)}`,
      html`<p>${english(`${challenge}: ${detail}`)}</p>`,
    ),
  )
  return html`<h2>${say(lang, 'Proofs')}</h2>${rows}`
}

function budgets(lang: Language, budgets: DryRun['budgets']): SafeHtml | '' {
  if (budgets.length === 0) return ''
  const rows = budgets.map(({ limit, subject, left, count, per, freeAt }) => {
    const next = freeAt === undefined ? '' : `, the next at ${freeAt}`
    return html`<li>${english(`${limit} for ${subject}: ${left} of ${count} left per ${per}${next}`)}</li>`
  })
  return html`
    <h2>${say(lang, 'Limits of the CA')}</h2>
    <ul class="plain">${rows}</ul>`
}
