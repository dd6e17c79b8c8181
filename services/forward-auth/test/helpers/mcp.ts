import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type OAuthClientProvider,
  UnauthorizedError,
} from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type {
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js'
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Test } from 'tap'
import { Agent, buildConnector, fetch } from 'undici'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import { CALLBACK } from './authorization-server.ts'

/** An MCP server of the SDK, at every path and without a line about who may call it. */
export async function startMcpServer(t: Test) {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const server = createServer(async (request, response) => {
    const id = String(request.headers['mcp-session-id'])
    const transport = sessions.get(id) ?? (await openSession(sessions))
    await transport.handleRequest(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, sessions }
}

async function openSession(sessions: Map<string, StreamableHTTPServerTransport>) {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  })
  const server = new McpServer(
    { name: 'notes', version: '1.0.0' },
    { capabilities: { logging: {} } },
  )
  let release = () => {}
  server.registerTool('whoami', {}, ({ requestInfo }) => ({
    content: [{ type: 'text', text: JSON.stringify(requestInfo?.headers) }],
  }))
  // Its answer begins with a message, and ends after somebody has called `release`.
  server.registerTool('wait', {}, async ({ sendNotification }) => {
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    await sendNotification({
      method: 'notifications/message',
      params: { level: 'info', data: 'waiting' },
    })
    await released
    return { content: [{ type: 'text', text: 'released' }] }
  })
  server.registerTool('release', {}, async () => {
    release()
    server.sendToolListChanged()
    return { content: [] }
  })
  await server.connect(transport as Transport)
  return transport
}

export interface McpClientOptions {
  /** Where the proxy listens, and the certificate that it is trusted by. */
  readonly port: number
  readonly ca: string
  /** Of a client that is registered; absent: it registers itself. */
  readonly registered?: OAuthClientInformationMixed
}

/** A client of the SDK that knows nothing but the URL of a server. A browser signs its person in. */
export function createMcpClient(t: Test, { port, ca, registered }: McpClientOptions) {
  /** Method, URL and status of every request, with its challenge. */
  const transcript: string[] = []
  const toProxy = createFetch(port, ca)
  const recorded: FetchLike = async (url, init) => {
    const answer = await toProxy(url, init)
    const challenge = answer.headers.get('www-authenticate')
    const line = `${init?.method ?? 'GET'} ${url} ${answer.status}`
    transcript.push(challenge ? `${line} ${challenge}` : line)
    return answer
  }
  const browser = createBrowser()
  let client: OAuthClientInformationMixed | undefined = registered
  let tokens: OAuthTokens | undefined
  let verifier = ''
  let code = ''
  const provider: OAuthClientProvider = {
    redirectUrl: CALLBACK,
    clientMetadata: {
      client_name: 'assistant',
      redirect_uris: [CALLBACK],
      token_endpoint_auth_method: 'none',
      ...{ application_type: 'native' },
    },
    clientInformation: () => client,
    saveClientInformation(given) {
      client = given
    },
    tokens: () => tokens,
    saveTokens(given) {
      tokens = given
    },
    codeVerifier: () => verifier,
    saveCodeVerifier(given) {
      verifier = given
    },
    async redirectToAuthorization(url) {
      transcript.push(`browser ${url}`)
      code = (await browser.signIn(url)).searchParams.get('code') ?? ''
    },
  }

  /** Connects, and signs in as often as the server asks for it. */
  async function connect(url: string, signIns = 2): Promise<McpConnection> {
    const transport = new StreamableHTTPClientTransport(new URL(url), {
      authProvider: provider,
      fetch: recorded,
    })
    const client = new Client({ name: 'assistant', version: '1.0.0' })
    try {
      await client.connect(transport as Transport)
      t.teardown(() => client.close())
      return { client, transport }
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || signIns === 0) throw error
      await transport.finishAuth(code)
      return connect(url, signIns - 1)
    }
  }
  return { connect, transcript, fetch: recorded, tokens: () => tokens }
}

export interface McpConnection {
  readonly client: Client
  readonly transport: StreamableHTTPClientTransport
}

/** Whatever is asked of example.com goes to the proxy. */
export function createFetch(port: number, ca: string): FetchLike {
  const connectTls = buildConnector({ ca })
  const dispatcher = new Agent({
    connect: (options, callback) => {
      const { hostname } = options
      const isOurs = hostname.endsWith('.example.com')
      const toProxy = { hostname: '127.0.0.1', port: String(port), servername: hostname }
      connectTls(isOurs ? { ...options, ...toProxy } : options, callback)
    },
  })
  return async (url, init) => {
    const { status, headers, body } = await fetch(url, { ...(init as object), dispatcher })
    // The SDK takes no answer of another class for one.
    return new Response(body as ReadableStream | null, { status, headers: [...headers] })
  }
}
