import { ProblemSchema } from '@gatehouse/service-kit/http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type ProblemStatus, problemAnswers } from '../web/documented.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The ID of its JSON-RPC request; undefined if it has none, or was not read. */
    rpcId: string | number | undefined
  }
}

/** Codes of JSON-RPC 2.0 (section 5.1) and of MCP by the code of a problem. */
const CODES: Readonly<Record<string, number>> = {
  FWA_CALL_MISMATCH: -32_020,
  FWA_CALL_UNREADABLE: -32_600,
  FWA_MCP_SESSION_UNKNOWN: -32_001,
}
const SERVER_ERROR = -32_000
const INTERNAL_ERROR = -32_603

/** Writes a problem as an error of JSON-RPC, which clients of MCP read. */
export async function answerAsRpc(
  { rpcId }: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
): Promise<unknown> {
  const type = String(reply.getHeader('content-type') ?? '')
  if (typeof payload !== 'string' || !type.startsWith('application/problem+json')) return payload
  const problem = JSON.parse(payload)
  const { status, code, title, detail } = problem
  const message = (detail ?? title) === title ? title : `${title}: ${detail}`
  const rpcCode = CODES[code] ?? (status < 500 ? SERVER_ERROR : INTERNAL_ERROR)
  reply.type('application/json')
  const error = { code: rpcCode, message, data: problem }
  return JSON.stringify({ jsonrpc: '2.0', id: rpcId ?? null, error })
}

const ErrorSchema = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Type.Union([Type.String(), Type.Integer(), Type.Null()]),
    error: Type.Object({ code: Type.Integer(), message: Type.String(), data: ProblemSchema }),
  },
  { description: 'An error of JSON-RPC, with the problem.' },
)

/** The error answers of routes with {@link answerAsRpc}, for the documentation. */
export function rpcAnswers(...statuses: readonly ProblemStatus[]) {
  const answers = Object.entries(problemAnswers(...statuses)).map(
    ([status, { description, content }]) => {
      const { 'text/html': page } = content
      const rpc = { 'application/json': { schema: ErrorSchema }, 'text/html': page }
      return [status, { description, content: rpc }] as const
    },
  )
  return Object.fromEntries(answers)
}
