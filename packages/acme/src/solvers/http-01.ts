import { createServer, type Server } from 'node:http'
import type { ChallengeStore, Solver } from './solver.ts'

const PREFIX = '/.well-known/acme-challenge/'
/** RFC 8555 section 8.3: base64url of at least 128 bits. */
const TOKEN = /^[A-Za-z0-9_-]{16,256}$/

/** Creates the solver for http-01 (RFC 8555 section 8.3); {@link answerHttp01} serves its answers. */
export function createHttp01(store: ChallengeStore): Solver {
  return {
    type: 'http-01',
    present: ({ token, keyAuthorization }) => store.put(keyOf(token), keyAuthorization),
    cleanUp: ({ token }) => store.delete(keyOf(token)),
  }
}

/** The key authorization for a token, for the route `/.well-known/acme-challenge/:token`. */
export async function answerHttp01(store: ChallengeStore, token: string) {
  return TOKEN.test(token) ? await store.get(keyOf(token)) : undefined
}

const keyOf = (token: string): string => `http-01:${token}`

/** Creates a server for challenges only. The caller listens on port 80, or where a proxy forwards to. */
export function createHttp01Server(store: ChallengeStore): Server {
  // Node checks for slow connections only every 30 seconds by default.
  const timeouts = {
    requestTimeout: 5_000,
    headersTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
  }
  const server = createServer({ maxHeaderSize: 8_192, ...timeouts }, async (request, response) => {
    const end = (status: number, body = '') => {
      response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(body)
    }
    const { method = '', url = '' } = request
    if (method !== 'GET' && method !== 'HEAD') return end(405)
    if (!url.startsWith(PREFIX)) return end(404)
    try {
      const answer = await answerHttp01(store, url.slice(PREFIX.length))
      end(answer === undefined ? 404 : 200, answer)
    } catch {
      end(503)
    }
  })
  server.maxConnections = 256
  return server
}
