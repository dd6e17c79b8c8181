import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { freePort, startProcess } from '../process.ts'

/** An MCP server with the tools `read_note` and `delete_note`, which runs as a program of its own. */
export interface McpServerUnderTest {
  /** With its version. */
  readonly title: string
  /** Why it is not tried here. */
  readonly lacks: string | false
  /** Whether a method that it does not know ends it, as clients of new versions send one. */
  readonly isFrail: boolean
  start(t: Test): Promise<RunningServer>
}

interface RunningServer {
  readonly port: number
  readonly path: string
  /** How often a tool has run. */
  count(tool: string): number
}

type Mode = 'stateless' | 'sessions'

interface Program {
  readonly title: string
  readonly command?: string
  /** Before its port and its mode. */
  readonly args?: readonly string[]
  /** What has to be there. */
  readonly file: string | undefined
  readonly path?: string
  readonly isFrail?: boolean
}

const PROGRAMS = join(import.meta.dirname, 'programs')
const MODULES = join(import.meta.dirname, '../../../node_modules')
/** The folders of what `scripts/mcp-servers.sh` and `scripts/agent-clients.sh` make. */
const { MCP_SERVERS, AGENT_CLIENTS } = process.env

function made(folder: string | undefined, name: string): string | undefined {
  return folder && join(folder, name)
}

function node(title: string, program: string, folder: string | undefined): Program {
  return { title, args: [join(PROGRAMS, program), `${folder}`], file: folder }
}

function go(title: string, name: string): Program {
  const file = made(MCP_SERVERS, name)
  return { title, command: `${file}`, file }
}

function python(title: string, folder: string | undefined): Program {
  const file = made(folder, 'bin/python')
  return { title, command: `${file}`, args: [join(PROGRAMS, 'server.py')], file }
}

function byHand(title: string, reading: 'exact' | 'fold'): Program {
  const file = join(PROGRAMS, 'by-hand.ts')
  return { title, args: [file, reading], file }
}

const npm = (name: string) => made(MCP_SERVERS, `node_modules/${name}`)
const BOTH: readonly Mode[] = ['stateless', 'sessions']

const python8: Program = {
  ...python('SDK for Python 1.8', made(MCP_SERVERS, 'python-1.8')),
  // It leads clients from /mcp to there.
  path: '/mcp/',
  isFrail: true,
}

/** All of them, and in which modes they are tried: with sessions and without where they differ in what they read. */
const ALL: readonly (readonly [program: Program, modes: readonly Mode[]])[] = [
  [node('SDK for TypeScript 1.10', 'typescript.ts', npm('sdk-1.10')), BOTH],
  [node('SDK for TypeScript 1.12', 'typescript.ts', join(MODULES, 'mcp-sdk-1.12')), BOTH],
  [node('SDK for TypeScript 1.13', 'typescript.ts', npm('sdk-1.13')), ['sessions']],
  [
    node('SDK for TypeScript 1.32', 'typescript.ts', join(MODULES, '@modelcontextprotocol/sdk')),
    ['sessions'],
  ],
  [
    node(
      'SDK for TypeScript 2.4',
      'typescript-2.ts',
      join(MODULES, '@modelcontextprotocol/server'),
    ),
    ['stateless'],
  ],
  [node('FastMCP for TypeScript 4.20', 'fastmcp.ts', npm('fastmcp')), ['sessions']],
  [go('mcp-go 0.32', 'mcp-go-0.32.0'), BOTH],
  [go('mcp-go 0.43', 'mcp-go-0.43.2'), BOTH],
  [go('mcp-go 1.2', 'mcp-go-1.2.1'), ['sessions']],
  [go('SDK for Go 1.1', 'go-sdk-1.1.0'), ['sessions']],
  [go('SDK for Go 1.8', 'go-sdk-1.8.0'), BOTH],
  [python8, BOTH],
  [python('SDK for Python 1.30', made(AGENT_CLIENTS, 'python1')), ['sessions']],
  [python('SDK for Python 2.3', made(AGENT_CLIENTS, 'python2')), ['sessions']],
  [python('FastMCP 2.13', made(MCP_SERVERS, 'fastmcp-2')), ['sessions']],
  [python('FastMCP 4.2', made(MCP_SERVERS, 'fastmcp-4')), ['sessions']],
  [byHand('by hand', 'exact'), ['stateless']],
  [byHand('by hand, without the case of names', 'fold'), ['stateless']],
]

export const SERVERS: readonly McpServerUnderTest[] = ALL.flatMap(([program, modes]) =>
  modes.map((mode) => serverOf(program, mode)),
)

function serverOf(program: Program, mode: Mode): McpServerUnderTest {
  const { title, command = process.execPath, args = [], file, path = '/mcp' } = program
  const { isFrail = false } = program
  return {
    title: `${title}, ${mode}`,
    lacks: (file === undefined || !existsSync(file)) && `${file ?? 'its folder'} is not there`,
    isFrail,
    async start(t) {
      const port = await freePort()
      const all = [...args, String(port), mode]
      const { output } = await startProcess(t, { command, args: all, folder: testFolder(t), port })
      return {
        ...{ port, path },
        count: (tool) =>
          output()
            .split('\n')
            .filter((line) => line === `ran ${tool}`).length,
      }
    },
  }
}
