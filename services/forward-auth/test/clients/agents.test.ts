import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { yamlOf } from '../app.ts'
import { CLIENT, claimsOf, NOTES, portalWith, startIssuer, VERIFIER } from '../oauth/kit.ts'
import { SHAPES } from '../shapes.ts'

expectWarnings(t, 'FWA_', 'AUTH_', 'a refresh token was reused')

// What clients of MCP really send, with where that is known from, and what is right.

interface Sent {
  readonly client: string
  /** A repository and its issue, or the document itself. */
  readonly source: string
}

const GRANTS = {
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
}

const GOOSE = {
  client_name: 'Goose',
  redirect_uris: ['http://localhost/oauth_callback'],
  grant_types: ['authorization_code'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  scope: 'openid profile email',
  code_challenge_methods_supported: ['S256'],
}

const DOCUMENTS: readonly (Sent & {
  readonly id: string
  readonly document: object
  /** What it sends as `redirect_uri`. */
  readonly redirectUri: string
  readonly scope?: string
  /** How it authenticates here; undefined if it is refused. */
  readonly right: 'none' | 'key' | undefined
})[] = [
  {
    client: 'ChatGPT',
    source: 'django-oauth/django-oauth-toolkit#1857',
    id: 'https://chatgpt.com/oauth/client.json',
    document: {
      ...GRANTS,
      client_uri: 'https://chatgpt.com/',
      redirect_uris: ['https://chatgpt.com/connector_platform_oauth_redirect'],
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
      client_name: 'ChatGPT',
      token_endpoint_auth_signing_alg: 'RS256',
      jwks_uri: 'https://chatgpt.com/oauth/jwks.json',
    },
    redirectUri: 'https://chatgpt.com/connector_platform_oauth_redirect',
    right: 'key',
  },
  {
    client: 'ChatGPT, without another way',
    source: 'pocket-id/pocket-id#1718',
    id: 'https://chatgpt.com/oauth/a1b2/client.json',
    document: {
      ...GRANTS,
      redirect_uris: ['https://chatgpt.com/connector/oauth/a1b2'],
      token_endpoint_auth_method: 'private_key_jwt',
      jwks_uri: 'https://chatgpt.com/oauth/jwks.json',
    },
    redirectUri: 'https://chatgpt.com/connector/oauth/a1b2',
    right: 'key',
  },
  {
    client: 'Claude',
    source: 'anthropics/claude-ai-mcp#124',
    id: 'https://claude.ai/oauth/mcp-oauth-client-metadata',
    document: {
      ...GRANTS,
      client_name: 'Claude',
      redirect_uris: [
        'https://claude.ai/api/mcp/auth_callback',
        'https://claude.com/api/mcp/auth_callback',
      ],
      token_endpoint_auth_method: 'none',
    },
    redirectUri: 'https://claude.ai/api/mcp/auth_callback',
    scope: 'notes:read offline_access',
    right: 'none',
  },
  {
    client: 'Claude Code 2.1',
    source: 'anthropics/claude-code#42301, #64705',
    id: 'https://claude.ai/oauth/claude-code-client-metadata',
    document: {
      ...GRANTS,
      client_name: 'Claude Code',
      redirect_uris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
      token_endpoint_auth_method: 'none',
    },
    redirectUri: 'http://127.0.0.1:52163/callback',
    scope: 'notes:read offline_access',
    right: 'none',
  },
  {
    client: 'Claude Code that finds no scopes',
    source: 'anthropics/claude-code#41610',
    id: 'https://claude.ai/oauth/claude-code-client-metadata',
    document: { redirect_uris: ['http://localhost/callback'], token_endpoint_auth_method: 'none' },
    redirectUri: 'http://localhost:3118/callback',
    scope: 'claudeai',
    right: 'none',
  },
  {
    client: 'Visual Studio Code 1.106',
    source: 'microsoft/vscode#278512, src/vs/base/common/oauth.ts',
    id: 'https://vscode.dev/oauth/client-metadata.json',
    document: {
      ...GRANTS,
      client_name: 'Visual Studio Code',
      redirect_uris: [
        'https://insiders.vscode.dev/redirect',
        'https://vscode.dev/redirect',
        'http://127.0.0.1/',
        'http://127.0.0.1:33418/',
      ],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
    redirectUri: 'http://127.0.0.1:59656/',
    scope: 'openid profile email',
    right: 'none',
  },
  {
    client: 'OpenCode',
    source: 'anomalyco/opencode#47737',
    id: 'https://opencode.ai/oauth/opencode/client.json',
    document: {
      ...GRANTS,
      client_name: 'opencode',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
      token_endpoint_auth_method: 'none',
      token_endpoint_auth_methods_supported: ['none'],
    },
    redirectUri: 'http://127.0.0.1:19876/callback',
    right: 'none',
  },
  {
    client: 'OpenCode, with a path that its document lacks',
    source: 'anomalyco/opencode#50510',
    id: 'https://opencode.ai/oauth/opencode/client.json',
    document: { redirect_uris: ['http://127.0.0.1/callback'], token_endpoint_auth_method: 'none' },
    redirectUri: 'http://127.0.0.1:19876/mcp/oauth/callback',
    right: undefined,
  },
  {
    client: 'Codex',
    source: 'openai/codex#30460',
    id: 'https://chatgpt.com/oauth/codex/client.json',
    document: {
      ...GRANTS,
      client_name: 'Codex',
      redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
      token_endpoint_auth_method: 'none',
    },
    redirectUri: 'http://127.0.0.1:63546/callback',
    right: 'none',
  },
  {
    client: 'Crush',
    source: 'charmbracelet/crush#3406',
    id: 'https://charm.land/.well-known/oauth-client.json',
    document: {
      client_name: 'Crush',
      redirect_uris: ['http://localhost:40704/callback', 'http://localhost:40705/callback'],
    },
    redirectUri: 'http://localhost:40705/callback',
    right: 'none',
  },
  {
    client: 'GitHub Copilot CLI 1.0.83, at another port than its document says',
    source: 'github/copilot-cli#4793',
    id: 'https://github.com/copilot/cli/client-metadata.json',
    document: { application_type: 'native', redirect_uris: ['http://127.0.0.1:33418/'] },
    redirectUri: 'http://127.0.0.1:60005/',
    right: 'none',
  },
  {
    client: 'Zed',
    source: 'zed-industries/zed#56769, crates/context_server/src/oauth.rs',
    id: 'https://zed.dev/oauth/client-metadata.json',
    document: { redirect_uris: ['http://127.0.0.1/callback'] },
    redirectUri: 'http://127.0.0.1:41523/callback',
    right: 'none',
  },
  {
    client: 'Grok, of its document the redirect URIs alone',
    source: 'koala73/worldmonitor#8307',
    id: 'https://grok.com/oauth/mcp-client.json',
    document: {
      redirect_uris: [
        'https://grok.com/connectors-oauth-exchange-code/',
        'https://console.x.ai/connectors-oauth-exchange-code/',
      ],
    },
    redirectUri: 'https://grok.com/connectors-oauth-exchange-code/',
    right: 'none',
  },
  {
    client: 'Goose, as its document says',
    source: 'aaif-goose/goose, documentation/static/oauth/client-metadata.json',
    id: 'https://goose-docs.ai/oauth/client-metadata.json',
    document: GOOSE,
    redirectUri: 'http://localhost:54545/oauth_callback',
    right: 'none',
  },
  {
    client: 'Goose, which says localhost and listens on 127.0.0.1',
    source: 'aaif-goose/goose#8550, crates/goose/src/oauth/mod.rs',
    id: 'https://goose-docs.ai/oauth/client-metadata.json',
    document: GOOSE,
    redirectUri: 'http://127.0.0.1:54545/oauth_callback',
    right: undefined,
  },
]

t.test('documents of clients', async (t) => {
  for (const { client, source, id, document, redirectUri, scope, right } of DOCUMENTS) {
    const { person, documents, authorizeUrl, allow, redeem } = await startIssuer(t)
    documents.set(id, { client_id: id, ...document })
    const changes = { client_id: id, redirect_uri: redirectUri, ...(scope && { scope }) }
    const browser = await person()
    const page = await browser.open(authorizeUrl(changes))
    t.equal(page.statusCode, right ? 200 : 400, `${client} (${source})`)
    if (!right) continue
    const { code } = await allow(browser, changes)
    const answer = (await redeem(code, changes)).json()
    if (right === 'key') t.match(answer, { error: 'invalid_client' }, 'its key is demanded')
    else t.equal(answer.scope, 'notes:read', `${client}: what there is`)
  }
})

const REGISTRATIONS: readonly (Sent & {
  readonly body: object
  readonly redirectUri: string
  /** By which it then authenticates; undefined if it is refused when it asks for a code. */
  readonly method: string | undefined
})[] = [
  {
    client: 'Cursor and Grok Bot, which have no document',
    source: 'erp-mafia/accounted#2225, soflyy/agent-connector-for-wp#111',
    body: {
      ...GRANTS,
      client_name: 'Cursor',
      redirect_uris: [
        'cursor://anysphere.cursor-mcp/oauth/callback',
        'https://www.cursor.com/agents/mcp/oauth/callback',
        'http://localhost:8787/callback',
      ],
      token_endpoint_auth_method: 'none',
    },
    redirectUri: 'cursor://anysphere.cursor-mcp/oauth/callback',
    method: 'none',
  },
  {
    client: 'Copilot Studio, which demands a secret and names no method',
    source: 'activepieces/activepieces#14397, pantalytics/odoo-mcp-pro#57',
    body: { redirect_uris: ['https://global.consent.azure-apim.net/redirect/x'] },
    redirectUri: 'https://global.consent.azure-apim.net/redirect/x',
    method: 'client_secret_post',
  },
  {
    client: 'claude.ai connectors',
    source: 'anthropics/claude-ai-mcp#1043',
    body: {
      ...GRANTS,
      client_name: 'claudeai',
      redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
      token_endpoint_auth_method: 'client_secret_post',
      scope: 'claudeai',
    },
    redirectUri: 'https://claude.ai/api/mcp/auth_callback',
    method: 'client_secret_post',
  },
  {
    client: 'GitHub Copilot CLI 1.0',
    source: 'dozigden/boardoil#11',
    body: {
      ...GRANTS,
      redirect_uris: ['http://127.0.0.1:56679/'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
    redirectUri: 'http://127.0.0.1:56679/',
    method: 'none',
  },
  {
    client: 'LibreChat 0.8, which renews with its ID in Basic alone',
    source: 'danny-avila/LibreChat#9705, packages/api/src/mcp/oauth/handler.ts',
    body: {
      ...GRANTS,
      client_name: 'LibreChat MCP Client',
      redirect_uris: ['https://chat.example.com/api/mcp/notes/oauth/callback'],
      token_endpoint_auth_method: 'client_secret_basic',
      scope: 'notes:read',
      logo_uri: undefined,
      tos_uri: undefined,
    },
    redirectUri: 'https://chat.example.com/api/mcp/notes/oauth/callback',
    method: 'client_secret_basic',
  },
  {
    client: 'n8n',
    source: 'n8n-io/n8n#32289',
    body: {
      ...GRANTS,
      client_name: 'n8n',
      redirect_uris: ['https://n8n.example.com/rest/oauth2-credential/callback'],
      token_endpoint_auth_method: 'none',
      scope: 'notes:read',
    },
    redirectUri: 'https://n8n.example.com/rest/oauth2-credential/callback',
    method: 'none',
  },
  {
    client: 'Gemini CLI, which has no document',
    source: 'google-gemini/gemini-cli#7465, packages/core/src/mcp/oauth-provider.ts',
    body: {
      ...GRANTS,
      client_name: 'Gemini CLI MCP Client',
      redirect_uris: ['http://localhost:7777/oauth/callback'],
      token_endpoint_auth_method: 'none',
      scope: '',
    },
    redirectUri: 'http://localhost:7777/oauth/callback',
    method: 'none',
  },
  {
    client: 'Open WebUI and other generators, with null for what they do not have',
    source: 'open-webui/open-webui#21097',
    body: {
      ...GRANTS,
      client_name: null,
      client_uri: null,
      scope: null,
      jwks_uri: null,
      redirect_uris: ['https://chat.example.com/oauth/clients/mcp:notes/callback'],
      token_endpoint_auth_method: null,
    },
    redirectUri: 'https://chat.example.com/oauth/clients/mcp:notes/callback',
    method: 'client_secret_post',
  },
  {
    client: 'mcp-remote, where nothing names scopes',
    source: 'geelen/mcp-remote, src/lib/node-oauth-client-provider.ts',
    body: {
      ...GRANTS,
      client_name: 'MCP CLI Client',
      client_uri: 'https://github.com/modelcontextprotocol/mcp-cli',
      redirect_uris: ['http://localhost:3334/oauth/callback'],
      token_endpoint_auth_method: 'none',
      software_id: '2e6dc280-f3c3-4e01-99a7-8181dbd1d23d',
      scope: 'openid email profile',
    },
    redirectUri: 'http://localhost:3334/oauth/callback',
    method: 'none',
  },
  {
    client: 'MCP Inspector',
    source: 'modelcontextprotocol/inspector, client/src/lib/auth.ts',
    body: {
      ...GRANTS,
      client_name: 'MCP Inspector',
      client_uri: 'https://github.com/modelcontextprotocol/inspector',
      redirect_uris: [
        'http://localhost:6274/oauth/callback',
        'http://localhost:6274/oauth/callback/debug',
      ],
      token_endpoint_auth_method: 'none',
      scope: '',
    },
    redirectUri: 'http://localhost:6274/oauth/callback/debug',
    method: 'none',
  },
  {
    client: 'Zed, at a server that takes no documents',
    source: 'zed-industries/zed, crates/context_server/src/oauth.rs',
    body: {
      client_name: 'Zed',
      redirect_uris: ['http://127.0.0.1:41523/callback'],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
    redirectUri: 'http://127.0.0.1:41523/callback',
    method: 'none',
  },
  {
    client: 'Le Chat, which demands a secret',
    source: 'pantalytics/odoo-mcp-pro#21, #22',
    body: {
      redirect_uris: ['https://callback.mistral.ai/v1/integrations_auth/oauth2_callback'],
      token_endpoint_auth_method: 'client_secret_basic',
    },
    redirectUri: 'https://callback.mistral.ai/v1/integrations_auth/oauth2_callback',
    method: 'client_secret_basic',
  },
  {
    client: 'Warp, which then adds a query to its redirect URI',
    source: 'warpdotdev/warp#9088',
    body: { redirect_uris: ['warp://mcp/oauth2callback'] },
    redirectUri: 'warp://mcp/oauth2callback?server_id=65aebdca',
    method: undefined,
  },
  {
    client: 'one that wants what there is not',
    source: 'RFC 7591 section 3.2.1',
    body: {
      redirect_uris: ['https://app.test/callback'],
      token_endpoint_auth_method: 'tls_client_auth',
      grant_types: ['client_credentials'],
      response_types: ['token'],
    },
    redirectUri: 'https://app.test/callback',
    method: 'none',
  },
]

t.test('registrations', async (t) => {
  const { app, person, authorizeUrl, allow, post, call } = await startIssuer(t, {
    options: 'authorizationServer: { registration: true }',
  })
  const browser = await person()
  for (const { client, source, body, redirectUri, method } of REGISTRATIONS) {
    const registered = await app.inject({
      ...{ method: 'POST', url: '/portals/main/register', payload: JSON.stringify(body) },
      headers: { host: 'auth.example.com', 'content-type': 'application/json' },
    })
    const name = `${client} (${source})`
    t.match(registered, { statusCode: 201 }, `${name}: ${registered.body}`)
    const { client_id: id, client_secret: secret, ...said } = registered.json()
    const changes = { client_id: id, redirect_uri: redirectUri }
    if (!method) {
      t.equal((await browser.open(authorizeUrl(changes))).statusCode, 400, name)
      continue
    }
    t.equal(said.token_endpoint_auth_method, method, name)
    t.equal(secret === undefined, method === 'none', name)
    const basic = { authorization: `Basic ${btoa(`${id}:${secret}`)}` }
    const authenticated = (fields: Record<string, string | undefined>) =>
      method === 'client_secret_basic'
        ? post('/token', fields, basic)
        : post('/token', { ...fields, client_id: id, client_secret: secret })
    const { code } = await allow(browser, changes)
    const tokens = await authenticated({
      ...{ grant_type: 'authorization_code', code, redirect_uri: redirectUri },
      ...{ code_verifier: VERIFIER, resource: NOTES },
    })
    t.equal((await call(tokens.json().access_token)).statusCode, 200, `${name}: ${tokens.body}`)
    const { refresh_token } = tokens.json()
    const renewed = await authenticated({ grant_type: 'refresh_token', refresh_token })
    t.equal(renewed.statusCode, 200, `${name} renews`)
  }
})

const WISHES: readonly (Sent & {
  readonly sends: Readonly<Record<string, string | undefined>>
  readonly scope: string | undefined
})[] = [
  {
    client: 'Cline, which asks for openid',
    source: 'cline/cline#9218',
    sends: { scope: 'openid' },
    scope: 'notes:read',
  },
  {
    client: 'mcp-go 1.2, which sends no scope',
    source: 'mark3labs/mcp-go',
    sends: { scope: undefined },
    scope: 'notes:read',
  },
  {
    client: 'TS SDK 1.32, with what the challenge names',
    source: 'modelcontextprotocol/typescript-sdk',
    sends: { scope: 'notes:read notes:write' },
    scope: 'notes:read notes:write',
  },
  {
    client: 'people who type a slash',
    source: 'anthropics/claude-code#52871',
    sends: { resource: `${NOTES}/` },
    scope: 'notes:read',
  },
  {
    client: 'people who type the origin alone',
    source: 'anthropics/claude-ai-mcp#234',
    sends: { resource: 'https://app.example.com/' },
    scope: undefined,
  },
  {
    client: 'clients of 2025-03-26, where there are two resources',
    source: 'geelen/mcp-remote, --disable-resource-parameter',
    sends: { resource: undefined },
    scope: undefined,
  },
  {
    client: 'Kiro CLI, where it cannot register',
    source: 'kirodotdev/Kiro#6345',
    sends: { client_id: 'Q DEV CLI' },
    scope: undefined,
  },
  {
    client: 'Claude, which takes the name of a static header for its ID',
    source: 'anthropics/claude-ai-mcp#644',
    sends: { client_id: 'Authorization' },
    scope: undefined,
  },
  {
    client: 'clients that repeat the prompt of OpenID Connect',
    source: 'panva/openid-client',
    sends: { prompt: 'consent', access_type: 'offline', scope: 'notes:read offline_access' },
    scope: 'notes:read',
  },
]

t.test('what clients ask for', async (t) => {
  const { person, allow, redeem, authorizeUrl } = await startIssuer(t)
  const browser = await person()
  for (const { client, source, sends, scope } of WISHES) {
    const page = await browser.open(authorizeUrl(sends))
    t.equal(page.statusCode === 400, scope === undefined, `${client} (${source})`)
    if (scope === undefined) continue
    const { code } = await allow(browser, sends)
    const answer = (await redeem(code, { resource: sends.resource })).json()
    t.equal(answer.scope, scope, client)
    t.equal(claimsOf(answer.access_token).aud, NOTES, client)
  }
})

t.test('a client of 2025-03-26 names no resource, where there is one', async (t) => {
  const portal = portalWith().replace(
    /, \{ url: "https:\/\/app\.example\.com\/other".*?\}\] \}\]/,
    ']',
  )
  const { person, allow, redeem } = await startIssuer(t, { yaml: yamlOf(portal) })
  const { code } = await allow(await person(), { resource: undefined })
  const answer = (await redeem(code, { resource: undefined })).json()
  t.equal(claimsOf(answer.access_token).aud, NOTES)
})

const SECOND = 1_000
const OF_GO = { authorization: `Basic ${btoa(`${encodeURIComponent(CLIENT)}:`)}` }

const RENEWALS: readonly (Sent & {
  /** How often the token is spent by others before, each time 20 s after the last. */
  readonly others: number
  /** Milliseconds since they were done. */
  readonly after: number
  /** How many requests come at once. */
  readonly requests: number
  readonly headers?: Record<string, string>
  /** New tokens, an access token alone, or the end of the agent. */
  readonly right: 'new' | 'access' | 'end'
})[] = [
  {
    client: 'Claude, Codex and Claude Code, several calls at once',
    source: 'comet-ml/opik#8287',
    ...{ others: 0, after: 3_600 * SECOND, requests: 6, right: 'new' },
  },
  {
    client: 'a client that asks again after a lost answer',
    source: 'PrefectHQ/fastmcp#4911',
    ...{ others: 1, after: 9 * SECOND, requests: 1, right: 'new' },
  },
  {
    client: 'Claude Code, the shortest that was seen between two processes',
    source: 'comet-ml/opik#8286',
    ...{ others: 1, after: 33 * SECOND, requests: 2, right: 'access' },
  },
  {
    client: 'clients of FastMCP behind a proxy',
    source: 'PrefectHQ/fastmcp#5037',
    ...{ others: 1, after: 45 * SECOND, requests: 1, right: 'access' },
  },
  {
    client: 'Claude Code, the longest that was seen between two processes',
    source: 'comet-ml/opik#8286',
    ...{ others: 1, after: 76 * SECOND, requests: 1, right: 'access' },
  },
  {
    client: 'Codex, whose processes hold older generations',
    source: 'exceptionless/Exceptionless#2404',
    ...{ others: 2, after: 45 * SECOND, requests: 1, right: 'access' },
  },
  {
    client: 'a process that comes after a couple of minutes',
    source: 'PrefectHQ/fastmcp#4901',
    ...{ others: 1, after: 119 * SECOND, requests: 1, right: 'access' },
  },
  {
    client: 'Claude Code, where another session has renewed five minutes ago',
    source: 'anthropics/claude-code#91641',
    ...{ others: 1, after: 300 * SECOND, requests: 1, right: 'end' },
  },
  {
    client: 'Zed and Go, which keep a spent token where none comes, an hour later',
    source: 'zed-industries/zed, try_refresh; golang/oauth2, RetrieveToken',
    ...{ others: 1, after: 3_600 * SECOND, requests: 1, right: 'end' },
  },
  {
    client: 'Go, without a resource, by Basic with an empty secret',
    source: 'golang/oauth2, newTokenRequest',
    ...{ others: 0, after: 3_600 * SECOND, requests: 1, right: 'new', headers: OF_GO },
  },
]

t.test('how clients renew', async (t) => {
  const { person, connect, call, refresh, post, clock } = await startIssuer(t)
  for (const { client, source, others, after, requests, headers, right } of RENEWALS) {
    const { refresh_token: held } = await connect(await person(client))
    let newest = held
    for (let n = 0; n < others; n += 1) {
      await clock.advance(20 * SECOND)
      newest = (await refresh(newest)).json().refresh_token
    }
    await clock.advance(after)
    const renew = () =>
      headers
        ? post('/token', { grant_type: 'refresh_token', refresh_token: held }, headers)
        : refresh(held)
    const answers = await Promise.all(Array.from({ length: requests }, renew))
    const name = `${client} (${source})`
    const all = answers.map((each) => each.json())
    for (const answer of all) {
      if (right === 'end') t.match(answer, { error: 'invalid_grant' }, name)
      else t.equal((await call(answer.access_token)).statusCode, 200, name)
      t.equal(answer.refresh_token !== undefined, right === 'new', name)
    }
    const last = right === 'new' ? all.at(-1).refresh_token : newest
    t.equal((await refresh(last)).statusCode, right === 'end' ? 400 : 200, `${name}: the others`)
  }
})

const KEY = 'a-key-of-a-program-that-can-send-nothing-else'
const READER = 'a-key-of-a-program-that-may-read-alone'
const OLD = { 'mcp-protocol-version': '2025-06-18' }
const NEW = {
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': 'read_note',
}

const KEYS: readonly (Sent & {
  readonly headers: Record<string, string>
  /** Whom the app is told of; a status if it is refused. */
  readonly right: 'psk:all' | 'psk:reader' | number
})[] = [
  {
    client: 'OpenAI, Responses and Realtime API with `authorization`',
    source: 'openai/openai-agents-python#1609',
    headers: { authorization: `Bearer ${KEY}` },
    right: 'psk:all',
  },
  {
    client: 'Anthropic, MCP connector with `authorization_token`',
    source: 'anthropics/anthropic-sdk-python#953',
    headers: { authorization: `Bearer ${KEY}` },
    right: 'psk:all',
  },
  {
    client: 'Claude, custom connectors with a request header',
    source: 'anthropics/claude-ai-mcp#644, #112',
    headers: { authorization: `Bearer ${KEY}` },
    right: 'psk:all',
  },
  {
    client: 'curl with an API token, as at Cloudflare',
    source: 'cloudflare/mcp-server-cloudflare#466',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    right: 'psk:all',
  },
  {
    client: 'a program of the protocol of 2025, which names no tool, without all scopes',
    source: 'modelcontextprotocol/modelcontextprotocol, 2025-06-18',
    headers: { authorization: `Bearer ${READER}`, ...OLD },
    right: 403,
  },
  {
    client: 'a program of the protocol of 2025, with all scopes',
    source: 'modelcontextprotocol/modelcontextprotocol, 2025-06-18',
    headers: { authorization: `Bearer ${KEY}`, ...OLD },
    right: 'psk:all',
  },
  {
    client: 'a program of the protocol of 2026, which names its tool',
    source: 'modelcontextprotocol/modelcontextprotocol, 2026-07-28',
    headers: { authorization: `Bearer ${READER}`, ...NEW },
    right: 'psk:reader',
  },
  {
    client: 'Kiro, with a token that is not valid',
    source: 'kirodotdev/Kiro#11412',
    headers: { authorization: 'Bearer of-before' },
    right: 401,
  },
]

t.test('programs that have a key and can send it as Bearer alone', async (t) => {
  const keys = [
    `{ name: all, key: ${KEY}, hosts: [app.example.com], scopes: ["notes:read", "notes:write"] }`,
    `{ name: reader, key: ${READER}, hosts: [app.example.com], scopes: ["notes:read"] }`,
  ]
  const { check } = await startIssuer(t, { options: `callers: { keys: [${keys}] }` })
  for (const { client, source, headers, right } of KEYS) {
    const answer = await check(SHAPES[0]!, { 'X-Forwarded-Uri': '/mcp', ...headers })
    const name = `${client} (${source})`
    if (typeof right === 'number') t.equal(answer.statusCode, right, name)
    else
      t.match(
        answer,
        { statusCode: 200, headers: { authorization: '', 'x-forwarded-user': right } },
        name,
      )
  }
})
