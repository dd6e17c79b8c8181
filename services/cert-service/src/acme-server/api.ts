import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { ServedAccount, Store } from '@gatehouse/cert-store/port'
import { toTime } from '@gatehouse/issuance/times'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { actorOf, principalOf } from '../policy/authorize.ts'
import { isPerson } from '../policy/rules.ts'
import { emptyAnswer, guarded, IdSchema, TimeSchema } from '../schemas.ts'
import { urlsOf } from './urls.ts'

const MAX_LISTED = 1_000

const KEY = guarded([403, 404], {
  summary: 'The key by which ACME clients bind their accounts to a caller',
  description:
    'The key of the caller itself, or for a key without `domains` that of any API key. An ACME client ' +
    'takes `kid` and `hmacKey` for external account binding. `renew` replaces the key and ends the ' +
    'accounts that it has bound.',
  body: Type.Object({
    caller: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'Name of an API key. Default: the own one.',
      }),
    ),
    renew: Type.Optional(
      Type.Boolean({ description: 'Whether to replace the key. Default: false.' }),
    ),
    keep: Type.Optional(
      Type.Array(IdSchema, {
        maxItems: 1_000,
        description: 'IDs of accounts that go on, with `renew`.',
      }),
    ),
  }),
  response: {
    200: Type.Object({
      kid: Type.String(),
      hmacKey: Type.String({ description: 'base64url, of 32 bytes.' }),
      algorithm: Type.String({ description: '`HS256`; `HS384` and `HS512` are accepted too.' }),
      directory: Type.String({ description: 'URL of the directory.' }),
    }),
  },
})

const ACCOUNTS = guarded([], {
  summary: 'The ACME accounts of the caller',
  description:
    'For a key without `domains` those of all callers; the last used ones first, at most 1,000.',
  response: {
    200: Type.Object({
      accounts: Type.Array(
        Type.Object({
          id: Type.String(),
          caller: Type.Optional(
            Type.String({
              description: 'Name of an API key; absent for a device in a network of `acme.open`.',
            }),
          ),
          thumbprint: Type.String({
            description: 'SHA-256 of the key of the account (RFC 7638), base64url.',
          }),
          status: Type.Enum(['valid', 'deactivated', 'revoked']),
          client: Type.Optional(Type.String({ description: 'The program, as it says itself.' })),
          remoteAddress: Type.Optional(
            Type.String({ description: 'Where it was last used from.' }),
          ),
          createdAt: TimeSchema('When it was made.'),
          usedAt: TimeSchema('When it was last used, give or take a minute.'),
        }),
      ),
    }),
  },
})

const END = guarded([403, 404], {
  summary: 'End an ACME account',
  params: Type.Object({ id: IdSchema }),
  response: { 204: emptyAnswer('Done. Certificates that it has stay valid.') },
})

/** `POST /api/acme/key`, `GET /api/acme/accounts` and `DELETE /api/acme/accounts/:id`. */
export const acmeApiRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = app.requireCaller()
  app.post('/api/acme/key', { onRequest, schema: KEY }, async (request, reply) => {
    const { caller: name = ownName(request), renew = false, keep = [] } = request.body
    const caller = requireCaller(request, name)
    if (renew) await requireKept(app.store, caller, keep)
    const { externalAccounts } = app.acme
    const key = renew
      ? await externalAccounts.renew(caller, keep)
      : await externalAccounts.keyOf(caller)
    if (!key) throw callerUnknown('its name is too long for ACME: 100 characters at most')
    if (renew) request.log.info({ of: caller }, 'the key for ACME accounts was replaced')
    reply.header('cache-control', 'no-store')
    return { ...key, algorithm: 'HS256', directory: urlsOf(request).directory }
  })

  app.get('/api/acme/accounts', { onRequest, schema: ACCOUNTS }, async (request, reply) => {
    const of = isOperator(request) ? undefined : ownName(request)
    const accounts = await app.store.acme.listAccounts(of, MAX_LISTED)
    reply.header('cache-control', 'no-store')
    return { accounts: accounts.map(describe) }
  })

  app.delete('/api/acme/accounts/:id', { onRequest, schema: END }, async (request, reply) => {
    const account = await app.store.acme.findAccount(request.params.id)
    const isOwn = account && account.caller === ownName(request)
    if (!account || !(isOwn || isOperator(request)))
      throw new CertError('CERT_ACME_ACCOUNT_UNKNOWN', 'the caller has no such account')
    await app.store.acme.endAccount(account.id, 'revoked')
    return reply.code(204).send(null)
  })
}

function describe({ caller, client, remoteAddress, ...account }: ServedAccount) {
  return {
    ...account,
    ...(caller !== null && { caller }),
    ...(client !== null && { client }),
    ...(remoteAddress !== null && { remoteAddress }),
    createdAt: toTime(account.createdAt),
    usedAt: toTime(account.usedAt),
  }
}

/** The name of the API key that has asked; empty, as no key's, for a token. */
function ownName(request: FastifyRequest): string {
  const caller = principalOf(request)
  return !isPerson(caller) && caller.method === 'psk' ? caller.subject : ''
}

function isOperator(request: FastifyRequest): boolean {
  return actorOf(request).isOperator === true
}

/** Refuses a mistyped ID, which would end an account. @throws CertError CERT_ACME_ACCOUNT_UNKNOWN */
async function requireKept(store: Store, caller: string, ids: readonly string[]) {
  const accounts = await Promise.all(ids.map((id) => store.acme.findAccount(id)))
  const isKept = (n: number) => accounts[n]?.caller === caller && accounts[n].status === 'valid'
  const unknown = ids.find((_, n) => !isKept(n))
  if (unknown !== undefined)
    throw new CertError('CERT_ACME_ACCOUNT_UNKNOWN', `${caller} has no valid account ${unknown}`)
}

/** @throws CertError CERT_CALLER_UNKNOWN */
function requireCaller(request: FastifyRequest, name: string): string {
  const isAllowed = name !== '' && (name === ownName(request) || isOperator(request))
  if (isAllowed && request.server.callers.findNamed(name)) return name
  throw callerUnknown('only an API key has ACME accounts: its own, or by an operator that of any')
}

const callerUnknown = (why: string) => new CertError('CERT_CALLER_UNKNOWN', why)
