import { parseEndpointUrl } from '@gatehouse/net'
import { OptionalList, optional, Secret, Text } from '@gatehouse/service-kit/config'
import { applyToEach, type Fault, faultIf, faultOf } from '@gatehouse/service-kit/rules'
import { type Static, Type } from 'typebox'
import { isAllowedRedirect, isClientName, parseClientId } from '../client-metadata.ts'

const MAX_URIS = 20

const RegisteredSchema = Type.Object({
  id: Type.String({
    pattern: '^[!-~]{1,256}$',
    description: 'The `client_id`: visible ASCII characters without spaces.',
  }),
  name: Text('The name that people read when they are asked.', { maxLength: 100 }),
  redirectUris: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: MAX_URIS,
    description: 'The redirect URIs of the client, exactly as it sends them.',
  }),
  ...optional({
    secret: Secret('The secret of the client. Default: it has none, and PKCE alone protects it.', {
      minLength: 16,
    }),
    jwksUrl: Text(
      'URL of the public keys of a client that authenticates by `private_key_jwt`, instead of a secret.',
    ),
  }),
})

export type RegisteredClient = Static<typeof RegisteredSchema>

export const ClientsSchema = OptionalList(
  Type.Union([Type.String({ minLength: 1, maxLength: 1_024 }), RegisteredSchema]),
  'The clients that people can allow: hosts such as `claude.ai`, or URLs, of client ID metadata documents, and ' +
    'clients that you register. `*` at the end of a URL is any text, and alone any document. Default: every document. ' +
    'Those that register themselves are not among them, see `registration`.',
)

type ClientsConfig = Static<typeof ClientsSchema> | undefined

export function checkClients(clients: ClientsConfig): Fault[] {
  const ids = clients?.map((client) => (typeof client === 'string' ? client : client.id)) ?? []
  return applyToEach(clients ?? [], '/authorizationServer/clients', [
    (client, index) =>
      faultIf(
        ids.indexOf(ids[index] ?? '') < index,
        typeof client === 'string' ? '' : '/id',
        'is listed twice',
      ),
    (client) => {
      if (typeof client !== 'string') return checkRegistered(client)
      const isHost = !client.includes('/')
      const id = parseClientId(isHost ? `https://${client}/x` : client.replace(/\*$/, 'x'))
      const isKnown = client === '*' || id !== undefined
      const message =
        'is not the host or https URL of a document as clients send it, such as `claude.ai`'
      return faultIf(!isKnown, '', message)
    },
  ])
}

function checkRegistered(client: RegisteredClient): Fault[] {
  const { id, name, redirectUris, secret, jwksUrl } = client
  const message = 'cannot be given together with `secret`: a client authenticates in one way'
  return [
    ...faultIf(id.startsWith('registered.'), '/id', 'is of clients that register themselves'),
    ...faultIf(
      !isClientName(name),
      '/name',
      'has control, invisible or bidirectional characters, `<` or `>`',
    ),
    ...applyToEach(redirectUris, '/redirectUris', [
      (uri) =>
        faultIf(
          !isAllowedRedirect(uri),
          '',
          'is neither https, nor http on localhost, 127.0.0.1 or [::1], nor of a scheme of its own',
        ),
    ]),
    ...(jwksUrl === undefined ? [] : faultOf('/jwksUrl', () => parseEndpointUrl(jwksUrl))),
    ...faultIf(secret !== undefined && jwksUrl !== undefined, '/jwksUrl', message),
  ]
}

/** Whether the client of a document may be allowed, by its ID. Without a list, all may. */
export function compileClients(clients: ClientsConfig): (id: URL) => boolean {
  const texts = clients?.filter((client) => typeof client === 'string') ?? ['*']
  const exact = new Set(texts.filter((text) => !text.endsWith('*')))
  const beginnings = texts.filter((text) => text.endsWith('*')).map((text) => text.slice(0, -1))
  return ({ host, hostname, href }) =>
    [host, hostname, href].some((name) => exact.has(name)) ||
    beginnings.some((name) => href.startsWith(name))
}
