import { html } from '@remix-run/html-template'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type Page, pagesIn, prose, sendPage } from './page.ts'

/** Error codes, with what each means and what to do about it. */
type ErrorTable = Readonly<Record<string, { readonly title: string; readonly action: string }>>

export interface ErrorReferenceOptions {
  /** Path of the page. */
  readonly path: string
  readonly tables: readonly ErrorTable[]
}

/** Serves the page that the `type` of a problem links to. Each row has its code as its id. */
export const errorReference = fp<ErrorReferenceOptions>(
  async (app: FastifyInstance, { path, tables }) => {
    let page: Page | undefined
    app.get(path, { logLevel: 'warn', schema: { hide: true } }, async (_request, reply) => {
      page ??= renderErrors(tables)
      return sendPage(reply, 200, page)
    })
  },
  { fastify: '5.x', name: 'service-kit/error-reference' },
)

const page = pagesIn(`
main{display:grid;gap:1.5rem}
dl{display:grid;gap:.75rem}
dl div{padding:1rem 1.25rem;border:1px solid var(--line);border-radius:1rem;background:var(--card);scroll-margin-top:1rem}
dl div:target{border-color:var(--accent)}
dd{color:var(--muted)}
`)

function renderErrors(tables: readonly ErrorTable[]): Page {
  const rows = tables
    .flatMap((table) => Object.entries(table))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([code, { title, action }]) =>
        html`<div id="${code}"><dt><code>${code}</code> ${title}</dt><dd>${prose(action)}</dd></div>`,
    )
  return page({
    title: 'Errors',
    main: html`<h1>Errors</h1><dl>${rows}</dl>`,
  })
}
