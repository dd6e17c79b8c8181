import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type AgentClient, AT_ONCE, BY_TOOL, environmentOf, made } from './client.ts'

interface Said {
  readonly visit?: string
  readonly connected?: true
  readonly text?: string
  readonly error?: string
}

interface Library extends Omit<AgentClient, 'start' | 'lacks' | 'hasDocument'> {
  /** Default: yes. */
  readonly hasDocument?: boolean
  /** What was made for it. */
  readonly folder: string
  readonly program?: string
  readonly args?: readonly string[]
}

/** A library in a small program of ours, see `programs/`. */
const library = ({
  folder,
  program = '',
  args = [],
  hasDocument = true,
  ...own
}: Library): AgentClient => ({
  ...own,
  hasDocument,
  lacks: made(folder).lacks,
  async start(t, surroundings) {
    const { url, document, visit } = surroundings
    const env = await environmentOf(t, surroundings)
    const child = spawn(
      join(made(folder).file, program),
      [...args, url, ...(document ? [document] : [])],
      { env, stdio: ['pipe', 'pipe', 'pipe'] },
    )
    const ended = once(child, 'exit')
    t.teardown(async () => {
      child.stdin.end()
      await ended
    })
    let trouble = ''
    child.stderr.on('data', (chunk) => (trouble += chunk))
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()

    /** What it says next, after people have been where it sends them. */
    async function hear(): Promise<Said> {
      const { value, done } = await lines.next()
      if (done) throw new Error(`${own.title} ended: ${trouble}`)
      const said: Said = JSON.parse(value)
      if (said.visit === undefined) return said
      child.stdin.write(`${await visit(said.visit)}\n`)
      return hear()
    }
    await hear()
    return {
      async call(name) {
        child.stdin.write(`${name}\n`)
        const { text, error } = await hear()
        if (text === undefined) throw new Error(error)
        return text
      },
    }
  },
})

const python = (file: string) => ({
  program: 'bin/python',
  args: [join(import.meta.dirname, 'programs', file)],
})

export const python2 = library({
  title: 'MCP SDK for Python 2.3',
  folder: 'python2',
  ...python('agent.py'),
  scopes: BY_TOOL,
  scopesByBody: BY_TOOL,
})

export const python1 = library({
  title: 'MCP SDK for Python 1.30',
  folder: 'python1',
  ...python('agent.py'),
  scopes: AT_ONCE,
  scopesByBody: BY_TOOL,
})

export const fastMcp = library({
  title: 'FastMCP 4.2',
  folder: 'fastmcp',
  ...python('fastmcp_agent.py'),
  isExtra: true,
  hasDocument: false,
  scopes: BY_TOOL,
  scopesByBody: BY_TOOL,
})

export const goSdk = library({
  title: 'MCP SDK for Go 1.8',
  folder: 'go-sdk',
  isExtra: true,
  scopes: BY_TOOL,
  scopesByBody: BY_TOOL,
})

export const mcpGo = library({
  title: 'mcp-go 1.2',
  folder: 'mcp-go',
  isExtra: true,
  scopes: AT_ONCE,
  scopesByBody: AT_ONCE,
})
