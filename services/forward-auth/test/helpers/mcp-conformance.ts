import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import {
  fromJsonSchema,
  inputRequired,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server'
import type { Test } from 'tap'
import { AT_PROXY, atProxy, type ProxyAddress } from './at-proxy.ts'
import { startMcpServer2 } from './mcp-2.ts'

const PROGRAM = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/conformance/dist/index.js',
)

/** What the conformance suite says of scenarios. */
export interface Verdict {
  readonly scenario: string
  readonly passed: number
  readonly failed: number
}

export interface RunOptions {
  /** The proxy that has all hosts. */
  readonly proxy?: ProxyAddress
  /** Called with each line that it prints; it is ended if that fails. */
  readonly onLine?: (line: string) => unknown
  readonly folder: string
}

/** Runs the conformance suite of MCP as a program of its own: what it prints, and its verdicts. */
export async function runConformance(
  args: readonly string[],
  { proxy, onLine = () => {}, folder }: RunOptions,
) {
  const child = spawn(
    process.execPath,
    [...(proxy ? AT_PROXY : []), PROGRAM, ...args, '--output-dir', folder],
    {
      env: {
        PATH: process.env.PATH,
        ...(proxy && atProxy(proxy)),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const lines: string[] = []
  const work: Promise<unknown>[] = []
  const errors = text(child.stderr)
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = `${rest}${chunk}`.split('\n')
    rest = parts.pop() ?? ''
    for (const line of parts) {
      lines.push(line)
      work.push(Promise.resolve(onLine(line)).catch((error) => child.kill() && error))
    }
  })
  const [code] = await once(child, 'close')
  for (const failed of await Promise.all(work)) if (failed instanceof Error) throw failed
  const verdicts = lines.flatMap((line): Verdict[] => {
    const [, scenario = '', passed, failed] =
      /^[✓✗] (\S+): (\d+) passed, (\d+) failed/.exec(line) ?? []
    return passed === undefined
      ? []
      : [{ scenario, passed: Number(passed), failed: Number(failed) }]
  })
  return { code, lines, errors: await errors, verdicts }
}

/** A server of what most server scenarios need: content of each kind, notifications and questions on the way. */
export const startEverything = (t: Test) => startMcpServer2(t, createEverything)

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA='
const words = (text: string) => ({ type: 'text' as const, text })
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' }
const audio = { type: 'audio' as const, data: WAV, mimeType: 'audio/wav' }
const embedded = (uri: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType: 'text/plain', text: 'This is an embedded resource content.' },
})
const texts = <const Name extends string>(...names: readonly Name[]) =>
  fromJsonSchema<Record<Name, string>>({
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
    required: [...names],
  })

function createEverything(): McpServer {
  const server = new McpServer(
    { name: 'everything', version: '1.0.0' },
    { capabilities: { logging: {}, completions: {}, resources: { subscribe: true } } },
  )
  const tools = {
    test_simple_text: [words('This is a simple text response for testing.')],
    test_image_content: [image],
    test_audio_content: [audio],
    test_embedded_resource: [embedded('test://embedded-resource')],
    test_multiple_content_types: [words('Text'), image, embedded('test://mixed-content-resource')],
  }
  for (const [name, content] of Object.entries(tools))
    server.registerTool(name, { description: name }, () => ({ content }))
  server.registerTool('test_error_handling', { description: 'Fails' }, () => {
    throw new Error('This tool intentionally returns an error for testing')
  })
  server.registerTool('test_tool_with_logging', { description: 'Logs' }, async ({ mcpReq }) => {
    for (const step of ['started', 'processing', 'completed']) await mcpReq.log('info', step)
    return { content: [words('logged')] }
  })
  server.registerTool('test_tool_with_progress', { description: 'Waits' }, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken ?? 0
    for (const progress of [0, 50, 100])
      await mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 100 },
      })
    return { content: [words(String(progressToken))] }
  })
  server.registerTool(
    'test_input_required_result_elicitation',
    { description: 'Asks for a name' },
    ({ mcpReq }) => {
      if (mcpReq.inputResponses?.user_name) return { content: [words('Hello')] }
      const requestedSchema = {
        type: 'object' as const,
        properties: { name: { type: 'string' as const } },
        required: ['name'],
      }
      const question = inputRequired.elicit({ message: 'What is your name?', requestedSchema })
      return inputRequired({ inputRequests: { user_name: question } })
    },
  )
  server.registerResource('text', 'test://static-text', { mimeType: 'text/plain' }, ({ href }) => ({
    contents: [{ uri: href, mimeType: 'text/plain', text: 'The content of the static text.' }],
  }))
  server.registerResource('png', 'test://static-binary', { mimeType: 'image/png' }, ({ href }) => ({
    contents: [{ uri: href, mimeType: 'image/png', blob: PNG }],
  }))
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined })
  server.registerResource('template', template, {}, ({ href }, { id }) => ({
    contents: [{ uri: href, mimeType: 'application/json', text: JSON.stringify({ id }) }],
  }))
  const says = (
    ...content: (ReturnType<typeof words> | typeof image | ReturnType<typeof embedded>)[]
  ) => ({
    messages: content.map((one) => ({ role: 'user' as const, content: one })),
  })
  server.registerPrompt('test_simple_prompt', { description: 'Simple' }, () => says(words('Hello')))
  server.registerPrompt('test_prompt_with_image', { description: 'An image' }, () =>
    says(image, words('Describe it.')),
  )
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'Arguments', argsSchema: texts('arg1', 'arg2') },
    ({ arg1, arg2 }) => says(words(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  )
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'A resource', argsSchema: texts('resourceUri') },
    ({ resourceUri }) => says(embedded(resourceUri), words('Process it.')),
  )
  return server
}

/** A client's way to a server through the proxy, as the suite has no tokens of its own: its URL. */
export async function startTokenSender(
  t: Test,
  { port, ca, token }: { port: number; ca: string; token: string },
): Promise<string> {
  const server = createServer((asked, answer) => {
    const { method, url: path } = asked
    // Its own host is that of the app; one that the suite makes up stays.
    const isOwn = asked.headers.host === `127.0.0.1:${(server.address() as AddressInfo).port}`
    const host = isOwn ? 'app.example.com' : asked.headers.host
    const headers = { ...asked.headers, host, authorization: `Bearer ${token}` }
    const there = { host: '127.0.0.1', port, ca, servername: 'app.example.com', agent: false }
    const sent = request({ ...there, method, path, headers } as object, (answered) => {
      answer.writeHead(answered.statusCode ?? 502, answered.headers)
      answered.pipe(answer)
    })
    sent.on('error', () => answer.destroy())
    answer.on('close', () => sent.destroy())
    asked.pipe(sent)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
