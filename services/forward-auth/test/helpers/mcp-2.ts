import { once } from 'node:events'
import { createServer as createPlainServer } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import {
  Client,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  type Transport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer, type McpServerFactory } from '@modelcontextprotocol/server'
import type { Test } from 'tap'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import { createNetworkFetch, type Network, type Page, type WebBrowser } from './web-browser.ts'

/** The buttons of pages in English. */
export const ALLOW = 'Allow'

/** An MCP server of SDK 2 at every path, for both protocol versions, without a line about who may call it. */
export async function startMcpServer2(t: Test, factory: McpServerFactory = createNotes) {
  const handler = createMcpHandler(factory)
  const handle = toNodeHandler(handler)
  const server = createPlainServer(
    (request, response) => void handle(request as Parameters<typeof handle>[0], response),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    await handler.close()
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port }
}

/** Notes with a tool that reads, one that deletes, and one that tells the headers of its call. */
function createNotes(): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  server.registerTool('read_note', {}, () => ({ content: [{ type: 'text', text: 'a note' }] }))
  server.registerTool('delete_note', {}, () => ({ content: [{ type: 'text', text: 'deleted' }] }))
  server.registerTool('whoami', {}, ({ http }) => {
    const headers = Object.fromEntries(http?.req?.headers ?? [])
    return { content: [{ type: 'text', text: JSON.stringify(headers) }] }
  })
  return server
}

/** Serves client ID metadata documents by https on loopback: the URL of one of a client with these redirect URIs. */
export async function startClientDocument(t: Test, redirectUris: readonly string[]) {
  const ca = await createTestCa()
  let id = ''
  let asked = 0
  const server = createServer(ca.certificateFor('127.0.0.1'), (_request, response) => {
    asked += 1
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({
        client_id: id,
        client_name: 'Assistant',
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  id = `https://127.0.0.1:${(server.address() as AddressInfo).port}/assistant.json`
  return { id, host: new URL(id).host, ca: ca.root, asked: () => asked }
}

export interface AgentOptions {
  readonly network: Network
  readonly browser: WebBrowser
  readonly redirectUri: string
  /** The URL of its document; absent: it has to register itself. */
  readonly clientMetadataUrl?: string
  /** What the person does at the page that asks them. */
  readonly answer: (browser: WebBrowser, page: Page) => Promise<Page>
  /** Default: whatever the server has. */
  readonly version?: '2025-11-25'
}

/** A client of SDK 2 that knows nothing but the URL of a server, and of its own document. */
export function createAgent2(t: Test, options: AgentOptions) {
  const { network, browser, redirectUri, clientMetadataUrl, answer, version } = options
  /** Method, URL and status of every request, with its challenge. */
  const transcript: string[] = []
  const fetchThere = createNetworkFetch(network)
  const recorded = async (url: URL | string, init?: RequestInit): Promise<Response> => {
    const answered = await fetchThere(url, init as Parameters<typeof fetchThere>[1])
    const challenge = answered.headers.get('www-authenticate')
    const line = `${init?.method ?? 'GET'} ${url} ${answered.status}`
    transcript.push(challenge ? `${line} ${challenge}` : line)
    return answered
  }
  let client: StoredOAuthClientInformation | undefined
  let tokens: StoredOAuthTokens | undefined
  let discovered: OAuthDiscoveryState | undefined
  let verifier = ''
  let state = ''
  let callback: URLSearchParams | undefined
  const provider: OAuthClientProvider = {
    redirectUrl: redirectUri,
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    clientMetadata: { client_name: 'Assistant', redirect_uris: [redirectUri] },
    state: () => {
      state = crypto.randomUUID()
      return state
    },
    clientInformation: () => client,
    saveClientInformation(given) {
      client = given
    },
    tokens: () => tokens,
    saveTokens(given) {
      tokens = given
    },
    discoveryState: () => discovered,
    saveDiscoveryState(given) {
      discovered = given
    },
    invalidateCredentials(what) {
      if (what === 'all' || what === 'tokens') tokens = undefined
    },
    codeVerifier: () => verifier,
    saveCodeVerifier(given) {
      verifier = given
    },
    async redirectToAuthorization(url) {
      transcript.push(`browser ${url}`)
      const page = await browser.open(url)
      const answered = page.status === 0 ? page : await answer(browser, page)
      callback = answered.url.searchParams
      t.equal(callback.get('state'), state, 'the state comes back')
    },
  }

  /** Does something, and signs in or asks the person again as often as the SDK says that it is necessary. */
  async function authorized<T>(
    transport: () => StreamableHTTPClientTransport,
    work: () => Promise<T>,
    times = 2,
  ): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || !callback || times === 0) throw error
      const parameters = callback
      callback = undefined
      await transport().finishAuth(parameters)
      return authorized(transport, work, times - 1)
    }
  }

  /** Connects to a server: `call` calls a tool there, and gives the text of its answer. */
  async function connect(url: string) {
    let transport = new StreamableHTTPClientTransport(new URL(url))
    let connected = new Client({ name: 'assistant', version: '1.0.0' })
    await authorized(
      () => transport,
      async () => {
        const own = { authProvider: provider, fetch: recorded }
        transport = new StreamableHTTPClientTransport(new URL(url), own)
        const mode = version ? 'legacy' : 'auto'
        const about = { name: 'assistant', version: '1.0.0' }
        connected = new Client(about, { versionNegotiation: { mode } })
        await connected.connect(transport as Transport)
      },
    )
    t.teardown(() => connected.close())
    return {
      client: connected,
      async call(name: string): Promise<string> {
        const { content } = await authorized(
          () => transport,
          () => connected.callTool({ name }),
        )
        const [first] = content as { text?: string }[]
        return first?.text ?? ''
      },
    }
  }

  return { connect, transcript, fetch: recorded, tokens: () => tokens, client: () => client }
}
