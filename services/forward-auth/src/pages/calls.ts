import type { Profile } from '@gatehouse/profile'
import type { ArgumentLine } from './visible.ts'

/** A call of a tool as the person who approves it sees it. */
export interface ShownCall {
  /** URL of the MCP server. */
  readonly resource: string
  readonly tool: string
  readonly arguments: readonly ArgumentLine[]
  /** The proven host of the client; undefined if nothing about it is proven. */
  readonly clientHost: string | undefined
  /** The name that it gives itself. */
  readonly clientName: string | undefined
  readonly begun: number
  readonly until: number
  /** The person whom the agent acts for. */
  readonly principal: Profile | undefined
}
