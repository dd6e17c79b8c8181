import type { Gate } from '@gatehouse/gate'
import { HANGS, type HttpClient } from './client.ts'
import { type Finding, fault } from './diagnose.ts'
import { createMcpClient, mcpRequest } from './mcp-client.ts'

/** Asks for the resources of an app without a token: where that leads, and whether other paths lead to an MCP server. */
export async function* examineResources(
  { name, programs: { resources } }: Pick<Gate, 'name' | 'programs'>,
  app: URL,
  ask: HttpClient,
): AsyncGenerator<Finding> {
  const sendTo = (target: string) =>
    createMcpClient(new URL(target), ask)(mcpRequest('tools/list', {}))
  const appResources = resources.filter(({ origin }) => origin === app.origin)
  for (const { origin, url, path: resourcePath, upstream } of appResources) {
    const { status, headers, error } = await sendTo(url)
    if (status !== 401 || !headers['www-authenticate']?.includes('resource_metadata='))
      yield fault('challenge', `${url} answers ${status} without resource_metadata.`)
    // A check answers problem details.
    else if (upstream && !error)
      yield fault(
        'other',
        `${url} leads to a check, not to /portals/${name}/mcp-proxy${resourcePath}.`,
      )
    const base = resourcePath.replace(/\/$/, '')
    for (const path of ['/sse', '/messages', `${base}/`, `/${base}`, `${base}/x`]) {
      const target = `${origin}${path}`
      const stream = await ask(new URL(target), { headers: { accept: 'text/event-stream' } })
      const { result, error, body } = await sendTo(target)
      // A stream has no end.
      if (stream === HANGS || ((result ?? error) && !body.includes('FWA_')))
        yield fault('other', `${target} leads to an MCP server without a check.`)
    }
  }
}
