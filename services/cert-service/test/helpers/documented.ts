import { describeApi } from '../../src/openapi.ts'

interface Document {
  readonly paths: Record<string, Record<string, { readonly responses: object }>>
}

let document: Promise<Document> | undefined

/**
 * Whether the OpenAPI document names that status for the route that the request reached. So it is
 * for what reached none, and for pages, which are not described.
 */
export async function isDocumented(method: string, url: string, status: number): Promise<boolean> {
  document ??= describeApi() as Promise<Document>
  const { paths } = await document
  const [path = ''] = url.split('?')
  const route = paths[path] ? path : Object.keys(paths).find((one) => fits(one, path))
  const operation = route && paths[route]?.[method.toLowerCase()]
  return operation ? Object.hasOwn(operation.responses, String(status)) : true
}

function fits(template: string, path: string): boolean {
  const parts = template.split('/').map((part) => (part.startsWith('{') ? '[^/]*' : part))
  return new RegExp(`^${parts.join('/').replaceAll('.', '\\.')}$`).test(path)
}
