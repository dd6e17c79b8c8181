import fc from 'fast-check'
import t from 'tap'
import { isAllowedRedirect } from '../../src/client-metadata.ts'
import { type OAuthClient, readDocument } from '../../src/oauth/client.ts'

const ID = 'https://app.example.com/client.json'
const DOCUMENT = { client_id: ID, redirect_uris: ['https://app.example.com/callback'] }
const read = (document: unknown) => readDocument(ID, Buffer.from(JSON.stringify(document)))

type Accepted = [what: string, members: object, client: Partial<OAuthClient>]
const accepted: Accepted[] = [
  ['the least', {}, { id: ID, name: undefined, redirectUris: DOCUMENT.redirect_uris }],
  [
    'that of a native app',
    {
      client_name: 'Visual Studio Code',
      client_uri: 'https://app.example.com',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1:33418/', 'http://127.0.0.1/', 'vscode://vscode.mcp/auth'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
    {
      name: 'Visual Studio Code',
      redirectUris: ['http://127.0.0.1:33418/', 'http://127.0.0.1/', 'vscode://vscode.mcp/auth'],
    },
  ],
  ['a name in another script', { client_name: 'Žluťoučký 日本語 العربية' }, {}],
  ['an emoji of one character', { client_name: 'Rocket 🚀' }, { name: 'Rocket 🚀' }],
  ['a long name', { client_name: '🚀'.repeat(101) }, { name: '🚀'.repeat(100) }],
  ['members that are unknown', { software_id: { deep: [[[]]] }, logo_uri: 'x' }, {}],
  [
    'null for what is not there',
    { client_name: null, client_secret: null, grant_types: null, token_endpoint_auth_method: null },
    { name: undefined, authentication: 'none' },
  ],
  ...authentications(),
  ['20 redirect URIs', { redirect_uris: Array(20).fill('https://app.example.com/') }, {}],
]

/** What a document says of authentication, and how its client does then. */
function authentications(): Accepted[] {
  const jwks_uri = 'https://app.example.com/jwks.json'
  const byKey = { authentication: 'key', jwksUrl: jwks_uri } as const
  const none = { authentication: 'none', jwksUrl: undefined } as const
  const of = (preferred: unknown, listed?: unknown, uri: unknown = jwks_uri) => ({
    token_endpoint_auth_method: preferred,
    token_endpoint_auth_methods_supported: listed,
    jwks_uri: uri,
  })
  return [
    ['a key', of('private_key_jwt'), byKey],
    ['a key, as ChatGPT has it', of('private_key_jwt', ['none', 'private_key_jwt']), byKey],
    ['nothing', of(undefined), none],
    ['nothing first', of('none', ['private_key_jwt']), none],
    ['what there is not, and a key', of('tls_client_auth', ['private_key_jwt', 'none']), byKey],
    ['what there is not, and nothing', of('client_secret_basic', ['none']), none],
    ['keys elsewhere, and nothing', of('private_key_jwt', ['none'], 'https://b.example/j'), none],
    ['keys at no URL, and nothing', of('private_key_jwt', ['none'], 'x'), none],
  ]
}

t.test('a document is accepted', async (t) => {
  for (const [what, members, client] of accepted)
    t.match(read({ ...DOCUMENT, ...members }), client, what)
})

const refused: [members: object, message: RegExp][] = [
  [{ client_id: `${ID}/` }, /must have exactly the URL that it was requested at as `client_id`$/],
  [{ redirect_uris: [] }, /needs `redirect_uris`, 1 to 20 texts$/],
  [{ redirect_uris: Array(21).fill('https://app.example.com/') }, /needs `redirect_uris`/],
  [{ redirect_uris: 'https://app.example.com/' }, /needs `redirect_uris`/],
  [{ redirect_uris: ['https://a.example/', 'http://a.example/'] }, /redirect URI, number 2, that/],
  [{ client_name: '\u202eedoC' }, /`client_name` that is not valid: use text without control/],
  [{ client_name: '' }, /`client_name`/],
  [{ client_secret: 'hunter2' }, /`client_secret` that is not valid: remove it/],
  [{ client_secret_expires_at: 0 }, /`client_secret_expires_at`/],
  [{ token_endpoint_auth_method: 'client_secret_basic' }, /no way to authenticate that.*`none`/],
  [{ token_endpoint_auth_method: 'private_key_jwt' }, /no way to authenticate.*`jwks_uri` at the/],
  [
    { token_endpoint_auth_method: 'private_key_jwt', jwks_uri: 'https://b.example/jwks.json' },
    /no way to authenticate/,
  ],
  [
    { token_endpoint_auth_method: 'private_key_jwt', jwks_uri: 'http://app.example.com/jwks.json' },
    /no way to authenticate/,
  ],
  [{ grant_types: ['implicit'] }, /`grant_types`.*add `authorization_code`$/],
  [{ grant_types: 'authorization_code' }, /`grant_types`/],
  [{ response_types: ['token'] }, /`response_types`.*add `code`$/],
]

t.test('the reason of a refusal tells the developer what to change', async (t) => {
  for (const [members, message] of refused)
    t.throws(
      () => read({ ...DOCUMENT, ...members }),
      { code: 'FWA_CLIENT_INVALID', message },
      JSON.stringify(members).slice(0, 80),
    )
  for (const body of ['', 'null', '[]', '"x"', '{', '\ufeff{}'])
    t.throws(() => readDocument(ID, Buffer.from(body)), {
      message: 'the document of app.example.com must be a JSON object in UTF-8',
    })
})

t.test('the digest changes with what was read', async (t) => {
  const { digest } = read(DOCUMENT)
  t.equal(read({ ...DOCUMENT, tos_uri: 'https://app.example.com/tos' }).digest, digest)
  t.not(read({ ...DOCUMENT, client_name: 'A' }).digest, digest)
  t.not(read({ ...DOCUMENT, redirect_uris: ['https://app.example.com/'] }).digest, digest)
})

t.test('no body makes anything but a refusal', async () => {
  const member = fc.constantFrom('client_id', 'client_name', 'redirect_uris', 'grant_types')
  const body = fc.oneof(
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .dictionary(member, fc.oneof(fc.jsonValue(), fc.constant(ID)))
      .map((value) => Buffer.from(JSON.stringify({ ...DOCUMENT, ...value }))),
  )
  fc.assert(
    fc.property(body, (body) => {
      try {
        const { id, redirectUris } = readDocument(ID, body)
        return id === ID && redirectUris.every(isAllowedRedirect)
      } catch (error) {
        return (error as { code: string }).code === 'FWA_CLIENT_INVALID'
      }
    }),
    { numRuns: 1_000 },
  )
})
