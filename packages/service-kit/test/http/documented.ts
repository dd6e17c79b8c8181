interface Document {
  readonly paths: Record<string, Record<string, { readonly responses: object }>>
}

/** Whether a status is documented for the route that a request reached. */
export type IsDocumented = (method: string, url: string, status: number) => Promise<boolean>

/**
 * Asks the OpenAPI document of a service, which is made once. What reached no route, or one that is
 * not described, counts as documented.
 */
export function documentedBy(describe: () => Promise<object>): IsDocumented {
  let routes: Promise<Route[]> | undefined
  return async (method, url, status) => {
    routes ??= describe().then(routesOf)
    const [path = ''] = url.split('?')
    const route = (await routes).find(({ pattern }) => pattern.test(path))
    const operation = route?.operations[method.toLowerCase()]
    return operation ? Object.hasOwn(operation.responses, String(status)) : true
  }
}

interface Route {
  readonly pattern: RegExp
  readonly operations: Document['paths'][string]
}

/** Those without parameters come first, as in the router. */
function routesOf(document: object): Route[] {
  return Object.entries((document as Document).paths)
    .sort(([a], [b]) => Number(a.includes('{')) - Number(b.includes('{')))
    .map(([template, operations]) => ({ pattern: patternOf(template), operations }))
}

function patternOf(template: string): RegExp {
  const parts = template.split('/').map((part) => {
    if (part === '{rest}') return '.*'
    return part.startsWith('{') ? '[^/]*' : part.replaceAll('.', '\\.')
  })
  return new RegExp(`^${parts.join('/')}$`)
}
