import { html, type SafeHtml } from '@remix-run/html-template'
import { field, fields, type ShownSchema, typeOf } from './docs-schema.ts'
import { type Page, pagesIn, prose } from './page.ts'

/** As much of an OpenAPI 3.1 document as the page shows. */
export interface OpenApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content?: Content }
  readonly responses?: Readonly<Record<string, Answer>>
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema?: ShownSchema
}

interface Answer {
  readonly description?: string
  readonly content?: Content
}

type Content = Readonly<Record<string, { readonly schema?: ShownSchema }>>

interface Route {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

const page = pagesIn(`
main{display:grid}
main{gap:1.5rem 3rem}
.intro p,article p,dd,small{color:var(--muted)}
nav ul{list-style:none;padding:0;margin:.25rem 0 1rem}
nav a{display:block;padding:.2rem 0;color:inherit;font-size:.9rem;text-decoration:none}
nav a:hover{text-decoration:underline}
h2,nav b{font-size:.8rem;font-weight:600;letter-spacing:.06em;text-transform:uppercase;color:var(--muted)}
section{display:grid;gap:1rem;margin-bottom:2.5rem}
article{padding:1.25rem 1.5rem;border:1px solid var(--line);border-radius:1rem;background:var(--card);scroll-margin-top:1rem}
article:target{border-color:var(--accent)}
h3{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem .6rem;font-size:1rem;font-weight:400}
h3 code{font-weight:600}
h3+p{margin-top:.25rem}
.method{color:var(--accent)}
h4{margin:1rem 0 .25rem;font-size:.9rem}
details{border-top:1px solid var(--line);padding:.5rem 0}
article>details:last-child{padding-bottom:0}
summary b,.plain b{display:inline-block;min-width:2.5rem}
.plain{border-top:1px solid var(--line);padding:.5rem 0 .5rem 1.1rem}
dl{display:grid;gap:.6rem;margin-top:.5rem;font-size:.95rem}
dd dl,details dl{padding-inline-start:1rem;border-inline-start:2px solid var(--line)}
@media(min-width:60rem){main{grid-template-columns:15rem minmax(0,1fr)}.intro{grid-column:1/-1}nav{position:sticky;top:1.5rem;align-self:start;max-height:calc(100vh - 3rem);overflow:auto}}
`)

/** The document as one page without script and without anything loaded from elsewhere. */
export function renderDocs({ info, paths = {} }: OpenApiDocument): Page {
  const groups = [...groupByTag(routesOf(paths))]
  return page({
    title: info.title,
    bar: html`<a href="openapi.json">openapi.json</a>`,
    main: html`<div class="intro"><h1>${info.title}</h1><p>${info.description} Version ${info.version}.</p></div>
<nav aria-label="Contents">${groups.map(([tag, routes]) => contents(tag, routes))}</nav>
<div>${groups.map(([tag, routes]) => html`<section><h2>${tag}</h2>${routes.map(article)}</section>`)}</div>`,
  })
}

function routesOf(paths: NonNullable<OpenApiDocument['paths']>): Route[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([verb, operation]) => {
      const method = verb.toUpperCase()
      return { id: `${method} ${path}`.replace(/[^\w]+/g, '-'), method, path, operation }
    }),
  )
}

/** In the order of the document, but health last: it is the same everywhere. */
function groupByTag(routes: readonly Route[]): Map<string, Route[]> {
  const groups = Map.groupBy(routes, ({ operation }) => operation.tags?.[0] ?? 'other')
  const health = groups.get('health')
  if (groups.delete('health') && health) groups.set('health', health)
  return groups
}

function contents(tag: string, routes: readonly Route[]): SafeHtml {
  const links = routes.map(
    ({ id, method, path, operation }) =>
      html`<li><a href="#${id}">${prose(operation.summary ?? `${method} ${path}`)}</a></li>`,
  )
  return html`<b>${tag}</b><ul>${links}</ul>`
}

function article({ id, method, path, operation }: Route): SafeHtml {
  const { summary, description, parameters, requestBody, responses = {} } = operation
  return html`<article id="${id}">
<h3><code><span class="method">${method}</span> ${path}</code>${summary ? html`<span>${prose(summary)}</span>` : ''}</h3>
${description ? html`<p>${prose(description)}</p>` : ''}
${parameters ? html`<h4>Parameters</h4><dl>${parameters.map(parameter)}</dl>` : ''}
${requestBody?.content ? html`<h4>Body</h4>${media(requestBody.content)}` : ''}
<h4>Answers</h4>${Object.entries(responses).map(([status, one]) => answer(status, one))}
</article>`
}

function parameter({ name, required = false, schema = {}, ...rest }: Parameter): SafeHtml {
  const description = rest.description ?? schema.description
  return field(name, { ...schema, ...(description && { description }) }, required)
}

function answer(status: string, { description = '', content }: Answer): SafeHtml {
  // What @fastify/swagger says where a schema says nothing.
  const meaning = description === 'Default Response' ? '' : prose(description)
  const told = html`<b>${status}</b> ${meaning}`
  if (!content) return html`<p class="plain">${told}</p>`
  return html`<details><summary>${told}</summary>${media(content)}</details>`
}

function media(content: Content): SafeHtml[] {
  return Object.entries(content).map(([type, { schema = {} }]) => {
    const whole = schema.properties ? '' : html` ${typeOf(schema)}`
    return html`<p><small><code>${type}</code>${whole}</small></p>${fields(schema)}`
  })
}
