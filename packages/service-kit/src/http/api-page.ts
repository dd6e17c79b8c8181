import { readFileSync } from 'node:fs'
import { html, type SafeHtml } from '@remix-run/html-template'
import { type Page, pagesIn, prose } from './page.ts'

type NamedParts = Readonly<Record<string, Part>>
/** The members of an OpenAPI document that the page shows. */
type Part = {
  readonly [K in 'name' | 'in' | 'summary' | 'description' | 'type' | 'format' | 'scheme']?: string
} & { readonly [K in 'items' | 'schema' | 'requestBody']?: Part } & {
  readonly [K in 'anyOf' | 'parameters']?: readonly Part[]
} & { readonly [K in 'properties' | 'content' | 'responses']?: NamedParts } & {
  readonly [K in 'enum' | 'examples' | 'required' | 'tags']?: readonly unknown[]
} & { readonly security?: readonly object[] }

/** The part of the document that the page shows. */
export interface ApiDocument {
  readonly info: Readonly<Record<'title' | 'version' | 'description', string>>
  readonly components: { readonly securitySchemes: NamedParts }
  readonly paths: Readonly<Record<string, NamedParts>>
}

const render = pagesIn(readFileSync(new URL('./api-page.css', import.meta.url), 'utf8'))

/** Renders each operation with an anchor and a command to try it. */
export function apiPage({ info, components, paths }: ApiDocument): Page {
  const schemes = components.securitySchemes
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((verb) => ({
      ...methods[verb],
      name: `${verb.toUpperCase()} ${path}`,
    })),
  )
  const groups = [...Map.groupBy(operations, ({ tags }) => String(tags ?? 'other'))]
  const main = html`
    <h1>${info.title} ${info.version}</h1>
    <p>${info.description} In the commands, <code>$URL</code> is the address of this service.
      Errors are problems (RFC 9457), each with a <code>code</code>.</p>
    <nav aria-label="Operations">${groups.map(([tag, list]) => html`<div><b>${tag}</b>${list.map(link)}</div>`)}</nav>
    <h2 id="authentication">Authentication</h2>
    <dl>${Object.entries(schemes).map(([name, scheme]) => html`<dt>${name}</dt><dd>${describe(scheme)}</dd>`)}</dl>
    ${groups.map(([tag, list]) => html`<h2>${tag}</h2>${list.map((operation) => card(operation, schemes))}`)}`
  const bar = html`<a href="/openapi.json">OpenAPI document</a>`
  return render({ title: info.title, bar, main })
}

const idOf = (name = '') => name.replace(/[{}]/g, '').replace(/\W+/g, '-')
const link = ({ name }: Part) => html`<a href="#${idOf(name)}"><code>${name}</code></a>`
const describe = ({ description = '' }: Part) => prose(description)

function card(operation: Part, schemes: NamedParts): SafeHtml {
  const ways = operation.security?.flatMap(Object.keys) ?? []
  const answers = Object.entries(operation.responses ?? {})
  return html`<article id="${idOf(operation.name)}">
    <h3>${link(operation)} ${prose(operation.summary ?? '')}</h3>
    <p>${describe(operation)}</p>
    ${ways.length > 0 ? html`<p>Needs <a href="#authentication">${ways.join(' or ')}</a>.</p>` : ''}
    <pre>${commandOf(operation, schemes[ways[0] ?? ''])}</pre>
    ${operation.parameters?.map(
      (parameter) => html`<p><code>${parameter.name}</code> in the ${parameter.in}:
      <code>${typeOf(parameter.schema)}</code>${parameter.required ? ', required' : ''}. ${describe(parameter)}</p>`,
    )}
    ${operation.requestBody ? html`<h4>Body</h4>${content(operation.requestBody)}` : ''}
    <details><summary>Answers: ${answers.map(([status]) => status).join(', ')}</summary>${answers.map(
      ([status, answer]) => html`<h4>${status}</h4><p>${describe(answer)}</p>${content(answer)}`,
    )}</details></article>`
}

/** Its media types, and the schema of the first one, if it is not that of every problem. */
function content({ content = {} }: Part): SafeHtml {
  const [first] = content['application/problem+json'] ? [] : Object.values(content)
  return html`<p><code>${Object.keys(content).join(', ')}</code></p><pre>${typeOf(first?.schema)}</pre>`
}

/** A schema in the way of TypeScript, with its descriptions as comments. */
function typeOf(schema: Part = {}, indent = '\n'): string {
  const { type, format, items, anyOf, properties, required } = schema
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (anyOf) return anyOf.map((variant) => typeOf(variant, indent)).join(' | ')
  if (items) return `Array<${typeOf(items, indent)}>`
  if (!properties) return format ?? type ?? ''
  const inner = `${indent}  `
  const rows = Object.entries(properties).map(([name, member]) => {
    const comment = member.description ? `${inner}// ${member.description}` : ''
    return `${comment}${inner}${name}${required?.includes(name) ? '' : '?'}: ${typeOf(member, inner)}`
  })
  return `{${rows.join('')}${indent}}`
}

/** A curl command. What it leaves to the reader is a variable of the shell. */
function commandOf({ name = '', parameters = [], requestBody }: Part, way?: Part): string {
  const [method, path = ''] = name.split(' ')
  const variable = (name = '') => `$${name.toUpperCase()}`
  const required = parameters.filter((parameter) => parameter.in === 'query' && parameter.required)
  const query = required.map(({ name }, n) => `${n > 0 ? '&' : '?'}${name}=${variable(name)}`)
  const target = path.replace(/\{([^{}]+)\}/g, (_, name) => variable(name)) + query.join('')
  const [[type = '', { schema = {} } = {}] = []] = Object.entries(requestBody?.content ?? {})
  return [
    `curl -X ${method} "$URL${target}"`,
    ...(way ? [CREDENTIALS[way.type ?? '']?.(way)] : []),
    ...(requestBody ? [`-H 'Content-Type: ${type}'`, `-d '${example(schema, type)}'`] : []),
  ].join(' \\\n  ')
}

const CREDENTIALS: Readonly<Record<string, (way: Part) => string>> = {
  http: ({ scheme }) => `-H "Authorization: ${scheme} $KEY"`,
  apiKey: ({ name }) => `-b "${name}=$SESSION"`,
  mutualTLS: () => '--cert client.crt --key client.key',
}

/** The members that must be there. */
function example({ anyOf, properties = {}, required = [] }: Part, type: string): string {
  if (anyOf?.[0]) return example(anyOf[0], type)
  const members = required.map((name): [string, unknown] => {
    const { examples, enum: values, type, items } = properties[`${name}`] ?? {}
    return [`${name}`, examples?.[0] ?? values?.[0] ?? (items ? [] : type)]
  })
  if (type.endsWith('json')) return JSON.stringify(Object.fromEntries(members))
  return String(new URLSearchParams(members as [string, string][]))
}
