import { html, type SafeHtml } from '@remix-run/html-template'
import { prose } from './page.ts'

/** As much of a JSON schema as the page shows. */
export interface ShownSchema {
  readonly type?: string
  readonly description?: string
  readonly format?: string
  readonly pattern?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly ShownSchema[]
  readonly items?: ShownSchema
  readonly properties?: Readonly<Record<string, ShownSchema>>
  readonly required?: readonly string[]
}

/** The members of an object, or of the objects in a list, down to the last one; nothing for other values. */
export function fields(schema: ShownSchema): SafeHtml {
  const { properties, required = [] } = schema.items ?? schema
  if (!properties) return html``
  const rows = Object.entries(properties).map(([name, member]) =>
    field(name, member, required.includes(name)),
  )
  return html`<dl>${rows}</dl>`
}

/** A member or parameter: what it is called, what it may be, and what it means. */
export function field(name: string, schema: ShownSchema, isRequired: boolean): SafeHtml {
  const kind = isRequired ? typeOf(schema) : `${typeOf(schema)}, optional`
  const meaning = schema.description ? html`<p>${prose(schema.description)}</p>` : ''
  return html`<div><dt><code>${name}</code> <small>${kind}</small></dt><dd>${meaning}${fields(schema)}</dd></div>`
}

/** What a value may be, in a few words. */
export function typeOf(schema: ShownSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ')
  if (schema.items) return `list of ${typeOf(schema.items)}`
  return schema.format ?? schema.pattern ?? schema.type ?? 'anything'
}
