import type { AgentClient } from './client.ts'
import { inspector } from './inspector.ts'
import { mcpRemote } from './mcp-remote.ts'
import { fastMcp, goSdk, mcpGo, python1, python2 } from './programs.ts'

export type { AgentClient }

/** All of them. */
export const CLIENTS: readonly AgentClient[] = [
  python2,
  python1,
  mcpRemote,
  goSdk,
  mcpGo,
  fastMcp,
  inspector,
]
