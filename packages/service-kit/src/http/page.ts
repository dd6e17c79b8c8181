import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Language } from './language.ts'
import { TIME_SCRIPT } from './time.ts'

export { chooseLanguage, LANGUAGES, type Language, languageOf } from './language.ts'
export { writeClock, writeDay, writeDistance, writeTime } from './time.ts'

/** A document, and its content security policy. */
export interface Page {
  readonly html: string
  readonly policy: string
  /** The language (RFC 5646), if it was chosen for the reader. */
  readonly language?: string | undefined
}

/** The content of one page. */
export interface PageContent {
  readonly title: string
  /** Shown at the end of the top bar. */
  readonly bar?: SafeHtml | ''
  readonly main: SafeHtml
  /** Default: English, for every reader. */
  readonly language?: Language | undefined
  /** Our own code, which makes the page handier. Without it, everything works. */
  readonly script?: string | undefined
}

/** The outline of the gate, on a grid of 24 by 24. */
export const GATE = 'M4 21V11a8 8 0 0 1 16 0v10M9 21v-9a3 3 0 0 1 6 0v9M2 21h20'

const BASE = readFileSync(new URL('./base.css', import.meta.url), 'utf8')
const COMMON = readFileSync(new URL('./common.css', import.meta.url), 'utf8')

/** A style sheet, and its source for the content security policy. */
export type PageStyle = ReturnType<typeof styleOf>

/** The style sheet of a page: the colors that all pages share, and `css`. */
export function styleOf(css: string) {
  const sheet = compact(`${BASE}${css}`)
  return { sheet, source: sourceOf(sheet) }
}

/** The source of the content security policy that permits an inline text. */
function sourceOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** Leaves out what only developers read: comments, white space, and zeros before a point. */
function compact(css: string): string {
  return css
    .replace(/\/\*[^*]*\*\//g, '')
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};,/~>]) ?|([:(]) | (?=\))/g, '$1$2')
    .replaceAll(';}', '}')
    .replace(/\b0(?=\.)/g, '')
    .trim()
}

/** The policy that allows one style sheet, these sources of images, targets of forms and scripts, and nothing else. */
function policyOf(
  style: string,
  images: string[],
  forms: string[],
  script: string,
  framedBy = "'none'",
) {
  const sources = `style-src ${style}; img-src ${images.join(' ')}; form-action ${forms.join(' ')}`
  const run = script === '' ? '' : `; script-src ${sourceOf(script)}`
  return `default-src 'none'; ${sources}${run}; frame-ancestors ${framedBy}; base-uri 'none'`
}

/** A scheme alone, since a host of a URL may have a semicolon or a star. What is none is left out. */
const SCHEME = /^[a-z][a-z\d+.-]*:$/

interface Document {
  readonly title: string
  /** Colour of its icon, as `#rgb` or `#rrggbb`. */
  readonly accent: string
  /** URL of an icon in place of the gate. */
  readonly icon?: string | undefined
  /** The places of its images, as sources of the content security policy. Default: it has none. */
  readonly images?: readonly string[] | undefined
  /** The URL where a browser goes on as soon as the page and its images have loaded. */
  readonly refresh?: string | undefined
  /** The scheme, as `https:`, of where the answers to its forms redirect to. Default: only here. */
  readonly formsTo?: string | undefined
  /** The sites that may frame it, as sources of the content security policy. Default: none. */
  readonly framedBy?: string | undefined
  readonly body: SafeHtml
  /** Default: English, for every reader. */
  readonly language?: string | undefined
  /** The code that its policy allows, by a hash. */
  readonly script?: string | undefined
}

/** A whole page. Where it tells times, a script writes them in the zone of the reader. */
export function pageOf(
  { title, accent, icon, images = [], refresh, formsTo = '', body, language, ...more }: Document,
  { sheet, source }: PageStyle,
): Page {
  // Texts are escaped, so a tag is one of a template.
  const hasTimes = String(body).includes('<time ')
  const script = `${hasTimes ? TIME_SCRIPT : ''}${more.script ?? ''}`
  const page = html`<!doctype html>
    <html lang="${language ?? 'en'}">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width,initial-scale=1">
        <title>${title}</title>
        ${refresh === undefined ? '' : html`<meta http-equiv="refresh" content="0;url=${refresh}">`}
        <link rel="icon" href="${icon ?? gateIcon(accent)}">
        ${html.raw`<style>${sheet}</style>`}
      </head>
      <body>
        ${body}
        ${script === '' ? '' : html.raw`<script>${script}</script>`}
      </body>
    </html>
    `
  const sources = icon === undefined ? ['data:', ...images] : [...images]
  const forms = ["'self'", SCHEME.test(formsTo) ? formsTo : []].flat()
  return {
    html: withoutBreaks(page),
    policy: policyOf(source, sources, forms, script, more.framedBy),
    language,
  }
}

/** Leaves out the line breaks between tags of templates. A text has no `>` of its own, which is escaped. */
function withoutBreaks(page: SafeHtml): string {
  return String(page)
    .replace(/>\n\s*(?=<)/g, '>')
    .trim()
}

function gateIcon(accent: string): SafeHtml {
  const path = html`<path fill='none' stroke='%23${accent.slice(1)}' stroke-width='2.5' d='${GATE}'/>`
  return html`data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'>${path}</svg>`
}

/** Creates a function that renders pages with the common style and `css`. */
export function pagesIn(css: string): (content: PageContent) => Page {
  const style = styleOf(`${COMMON}${css}`)
  return ({ title, bar, main, language, script }) => {
    const body = html`
      <header class="bar">
        <a class="brand" href="/">
          <svg viewBox="0 0 24 24" aria-hidden="true"><path d="${GATE}"/></svg>Gatehouse</a>
        ${bar}
      </header>
      <main>${main}</main>`
    return pageOf({ title, accent: '#4256d0', body, language, script }, style)
  }
}

/** Renders a sentence whose parts in backticks are code. */
export function prose(text: string): SafeHtml {
  return html`${text.split('`').map((part, i) => (i % 2 ? html`<code>${part}</code>` : part))}`
}

/** Sends a page that must not be cached. A `referrer-policy` that is set stays. */
export function sendPage(
  reply: FastifyReply,
  status: number,
  { html, policy, language }: Page,
): FastifyReply {
  return reply
    .code(status)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      ...(language !== undefined && { 'content-language': language, vary: 'accept-language' }),
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'x-robots-tag': 'noindex',
      // With `no-referrer`, browsers send forms with `Origin: null`.
      'referrer-policy': reply.getHeader('referrer-policy') ?? 'same-origin',
    })
    .send(html)
}

type ErrorTable = Readonly<Record<string, { readonly title: string; readonly action: string }>>

/** Serves the page that the `type` of a problem links to at `path`. Each row has its code as its id. */
export const errorReference = fp<{ readonly path: string; readonly tables: readonly ErrorTable[] }>(
  async (app: FastifyInstance, { path, tables }) => {
    let page: Page | undefined
    app.get(path, { logLevel: 'warn', schema: { hide: true } }, async (_request, reply) => {
      page ??= renderErrors(tables)
      return sendPage(reply, 200, page)
    })
  },
  { name: 'service-kit/error-reference' },
)

const errorPage = pagesIn(readFileSync(new URL('./errors.css', import.meta.url), 'utf8'))

function renderErrors(tables: readonly ErrorTable[]): Page {
  const rows = tables
    .flatMap((table) => Object.entries(table))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([code, { title, action }]) => html`
        <div id="${code}">
          <dt><code>${code}</code> ${title}</dt>
          <dd>${prose(action)}</dd>
        </div>`,
    )
  const main = html`
    <h1>Errors</h1>
    <dl>${rows}</dl>`
  return errorPage({ title: 'Errors', main })
}
