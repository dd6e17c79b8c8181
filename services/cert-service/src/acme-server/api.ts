import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { ServedAccount, Store } from '@gatehouse/cert-store/port'
import { toTime } from '@gatehouse/issuance/times'
import type { RevocationReason } from '@gatehouse/pki'
import { optional } from '@gatehouse/service-kit/config'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { actorOf, isOperatorFor, mayAll, principalOf, requireProgram } from '../policy/authorize.ts'
import { isPerson } from '../policy/rules.ts'
import { pagesOf, REASON, revokeAll, revokedAnswers } from '../routes/withdraw.ts'
import { emptyAnswer, guarded, IdSchema, TextSchema, TimeSchema } from '../schemas.ts'
import { entryOf } from './entries.ts'
import type { Owner } from './external-accounts.ts'
import { urlsOf } from './urls.ts'

const MAX_LISTED = 1_000

const CallerSchema = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'Name of an API key. Default: the own one.',
})

const KEY = guarded('getAcmeKey', [403, 404], {
  summary: 'The key by which ACME clients bind their accounts to a caller',
  description:
    'The key of the caller itself, or for a key without `domains` that of any API key. An ACME client ' +
    'takes `kid` and `hmacKey` for external account binding. The key is void when the value of the API key is ' +
    'gone: that with which the caller asks, or for an operator the newest. `renew` replaces the key and ends the ' +
    'accounts that it has bound.',
  body: Type.Object(
    optional({
      caller: CallerSchema,
      renew: Type.Boolean({ description: 'Whether to replace the key. Default: false.' }),
      keep: Type.Array(IdSchema, {
        maxItems: 1_000,
        description: 'IDs of accounts that go on, with `renew`.',
      }),
    }),
  ),
  response: {
    200: Type.Object({
      kid: Type.String(),
      hmacKey: TextSchema('base64url, of 32 bytes.'),
      algorithm: TextSchema('`HS256`; `HS384` and `HS512` are accepted too.'),
      directory: TextSchema('URL of the directory.'),
    }),
  },
})

const ACCOUNTS = guarded('listAcmeAccounts', [], {
  summary: 'The ACME accounts of the caller',
  description:
    'For a key without `domains` those of all callers; the last used ones first, at most 1,000.',
  response: {
    200: Type.Object({
      accounts: Type.Array(
        Type.Object({
          id: Type.String(),
          caller: Type.Optional(
            TextSchema('Name of an API key; absent for a device in a network of `acme.open`.'),
          ),
          thumbprint: TextSchema('SHA-256 of the key of the account (RFC 7638), base64url.'),
          status: Type.Enum(['valid', 'deactivated', 'revoked', 'unbound'], {
            description: '`unbound`: it has ended with the value of the API key that has bound it.',
          }),
          client: Type.Optional(TextSchema('The program, as it says itself.')),
          remoteAddress: Type.Optional(TextSchema('Where it was last used from.')),
          createdAt: TimeSchema('When it was made.'),
          usedAt: TimeSchema('When it was last used, give or take a minute.'),
        }),
      ),
    }),
  },
})

const END = guarded('endAcmeAccount', [403, 404], {
  summary: 'End an ACME account',
  params: Type.Object({ id: IdSchema }),
  response: { 204: emptyAnswer('Done. Certificates that it has stay valid.') },
})

const REVOKE = guarded('revokeAcmeAccount', [403, 404, 409], {
  summary: 'End an ACME account and revoke its certificates',
  description:
    'Ends the account, and revokes each unexpired certificate that it has ordered, in service or not; of the account ' +
    'of another caller those that the own key may revoke. With `keyCompromise` by a key without `domains`, none of ' +
    'their keys is certified again.',
  params: Type.Object({ id: IdSchema }),
  body: Type.Object({ reason: REASON }),
  response: revokedAnswers({ account: Type.String() }),
})

const ADOPT = guarded('adoptAcmeAccounts', [403, 404], {
  summary: 'Take over ACME accounts of a caller whose API key was replaced',
  description:
    'Binds valid accounts, which have ended with an earlier value of the API key, to the value with which the caller ' +
    'asks, or for a key without `domains` to the newest of any API key. They go on as they are.',
  body: Type.Object(
    optional({
      caller: CallerSchema,
      ids: Type.Array(IdSchema, {
        minItems: 1,
        maxItems: 1_000,
        description: 'IDs of the accounts. Default: all of the caller.',
      }),
    }),
  ),
  response: {
    200: Type.Object({
      adopted: Type.Integer({ description: 'Accounts that were bound to another value before.' }),
    }),
  },
})

/** `POST /api/acme/key`, and what there is below `/api/acme/accounts`. */
export const acmeApiRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.post('/api/acme/key', { onRequest, schema: KEY }, async (request, reply) => {
    const { caller: name = ownName(request), renew = false, keep = [] } = request.body
    const owner = requireOwner(request, name)
    const { caller, boundBy } = owner
    if (renew) await requireAccounts(app.store, caller, keep)
    const { externalAccounts } = app
    const detail = `of ${caller}${renew ? ', renewed' : ''}`
    const detailText = `${actorOf(request).actor} ${boundBy} ${detail}`
    const entry = { ...entryOf(request, 'acme-key', renew ? undefined : detailText), detail }
    const key = renew
      ? await externalAccounts.renew(owner, keep, entry)
      : await externalAccounts.keyOf(owner)
    if (!key) throw callerUnknown('its name is too long for ACME: 100 characters at most')
    if (renew) request.log.info({ of: caller }, 'the key for ACME accounts was replaced')
    else await app.store.addAudit([entry])
    reply.header('cache-control', 'no-store')
    return { ...key, algorithm: 'HS256', directory: urlsOf(request).directory }
  })

  app.get('/api/acme/accounts', { onRequest, schema: ACCOUNTS }, async (request, reply) => {
    const owner = isOperatorFor(request, 'read') ? undefined : ownName(request)
    // Accounts of devices are nobody's, as those of a caller without an API key.
    const accounts = owner === '' ? [] : await app.store.acme.listAccounts(owner, MAX_LISTED)
    reply.header('cache-control', 'no-store')
    const { externalAccounts } = app
    return {
      accounts: accounts.map((account) => {
        const isUnbound = account.status === 'valid' && !externalAccounts.isInForce(account)
        return { ...describe(account), ...(isUnbound && { status: 'unbound' as const }) }
      }),
    }
  })

  app.delete('/api/acme/accounts/:id', { onRequest, schema: END }, async (request, reply) => {
    const { id } = await requireAccount(request, request.params.id)
    await app.store.acme.endAccount(id, 'revoked', entryOf(request, 'acme-account-end'))
    return reply.code(204).send(null)
  })

  app.post(
    '/api/acme/accounts/:id/revoke',
    { onRequest, schema: REVOKE },
    async (request, reply) => {
      const account = await requireAccount(request, request.params.id)
      await app.store.acme.endAccount(account.id, 'revoked', entryOf(request, 'acme-account-end'))
      const outcome = await revokeOf(request, account, request.body.reason ?? 'unspecified')
      return reply.code(outcome.notRevoked ? 202 : 200).send(outcome)
    },
  )

  app.post('/api/acme/accounts/adopt', { onRequest, schema: ADOPT }, async (request) => {
    const { caller: name = ownName(request), ids } = request.body
    const owner = requireOwner(request, name)
    if (ids) await requireAccounts(app.store, owner.caller, ids)
    const entry = { ...entryOf(request, 'acme-account-adopt'), detail: `of ${owner.caller}` }
    const [newest, ...otherDigests] = app.callers.digestsOf(owner.caller)
    // An old value takes over none that the newest has bound.
    const kept = owner.boundBy === newest ? [] : [newest ?? '', ...otherDigests]
    return { adopted: await app.store.acme.adoptAccounts({ ...owner, ids, kept }, entry) }
  })
}

/** Revokes what an account has ordered. It has ended, so no more comes but what is being issued. */
async function revokeOf(
  request: FastifyRequest,
  { id: account, caller }: ServedAccount,
  reason: RevocationReason,
) {
  const { store, issuance, clock } = request.server
  const first = (await store.acme.listIssuing(account)).map(([text = '']) => text)
  await Promise.all([...new Set(first)].map((text) => issuance.settle({ text })))
  const now = clock.now()
  const isOwn = caller === ownName(request)
  const pages = pagesOf(
    (after) => store.listIssuedTo(account, { now, after }),
    (certificate) => isOwn || mayAll(request.server, principalOf(request), 'revoke', certificate),
  )
  // Nobody has a key refused to others whose names they may not have.
  const isKeyRefused = reason === 'keyCompromise' && isOperatorFor(request, 'revoke')
  return { account, reason, ...(await revokeAll(request, pages, () => reason, { isKeyRefused })) }
}

function describe({ caller, client, remoteAddress, boundBy: _, ...account }: ServedAccount) {
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

/** An account of the caller, or for an operator who may revoke of any. @throws CertError CERT_NOT_FOUND */
async function requireAccount(request: FastifyRequest, id: string): Promise<ServedAccount> {
  const account = await request.server.store.acme.findAccount(id)
  if (account && (account.caller === ownName(request) || isOperatorFor(request, 'revoke')))
    return account
  throw new CertError('CERT_NOT_FOUND', 'the caller has no such account')
}

/** Refuses a mistyped ID, which would end an account. @throws CertError CERT_NOT_FOUND */
async function requireAccounts(store: Store, caller: string, ids: readonly string[]) {
  const accounts = await Promise.all(ids.map((id) => store.acme.findAccount(id)))
  const isKept = (n: number) => accounts[n]?.caller === caller && accounts[n].status === 'valid'
  const unknown = ids.find((_, n) => !isKept(n))
  if (unknown !== undefined)
    throw new CertError('CERT_NOT_FOUND', `${caller} has no valid account ${unknown}`)
}

/**
 * The API key that a request is about. Who asks for itself gets no further than the value with which it asks: an old one
 * makes nothing that outlives it.
 * @throws CertError CERT_NOT_FOUND
 */
function requireOwner(request: FastifyRequest, caller: string): Owner {
  const { callers } = request.server
  const asking = principalOf(request)
  const isOwn = caller === ownName(request) && !isPerson(asking) && asking.method === 'psk'
  const [boundBy] = callers.digestsOf(isOwn ? asking : caller)
  if (boundBy !== undefined && caller !== '' && (isOwn || isOperatorFor(request, 'issue')))
    return { caller, boundBy }
  throw callerUnknown('only an API key has ACME accounts: its own, or by an operator that of any')
}

const callerUnknown = (why: string) => new CertError('CERT_NOT_FOUND', why)
