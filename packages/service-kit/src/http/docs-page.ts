/** As much of an OpenAPI 3.1 document as the page shows. */
export interface OpenApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly parameters?: readonly unknown[]
  readonly requestBody?: unknown
  readonly responses?: Readonly<Record<string, unknown>>
}

export const DOCS_STYLE = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
section { border-top: 1px solid #8886; padding: .5rem 0 }
h2 { font-size: 1.1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { overflow-x: auto; padding: .75rem; background: #8882 }
summary { cursor: pointer }
`

/** The document as one HTML page without script and without anything loaded from elsewhere. */
export function renderDocs({ info, paths = {} }: OpenApiDocument): string {
  const sections = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => section(method, path, operation)),
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(info.title)}</title>
<style>${DOCS_STYLE}</style>
<h1>${escapeHtml(info.title)} ${escapeHtml(info.version)}</h1>
<p>${escapeHtml(info.description ?? '')}
<p>For programs: <a href="openapi.json">openapi.json</a>
${sections.join('\n')}
`
}

function section(method: string, path: string, operation: Operation): string {
  const { summary = '', description = '', parameters, requestBody, responses = {} } = operation
  const answers = Object.entries(responses).map(([status, answer]) =>
    details(`Answer ${status}`, answer),
  )
  return `<section>
<h2><code>${escapeHtml(method.toUpperCase())} ${escapeHtml(path)}</code> ${escapeHtml(summary)}</h2>
<p>${escapeHtml(description)}
${details('Parameters', parameters)}${details('Body', requestBody)}${answers.join('')}
</section>`
}

function details(title: string, value: unknown): string {
  if (value === undefined) return ''
  const json = escapeHtml(JSON.stringify(value, null, 2))
  return `<details><summary>${escapeHtml(title)}</summary><pre>${json}</pre></details>\n`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}
