import type { Resource } from '@gatehouse/gate'
import type { Message } from './message.ts'

/** A request that the proxy has read. */
export interface ProxiedCall {
  readonly resource: Resource
  /** Absent for GET and DELETE. */
  readonly message: Message | undefined
  readonly body: Buffer | undefined
  /** The session as the server names it. */
  readonly sessionId: string | undefined
  /** Ends what is done for the request: its client has left, or it may not go on. */
  readonly abort: AbortController
}
