import { randomBytes } from 'node:crypto'
import {
  AcmeProblem,
  malformed,
  type PublicKey,
  readBinding,
  readKeyChange,
  readPayload,
} from '@gatehouse/acme/server'
import { isRocaKey } from '@gatehouse/auth-core'
import type { ServedAccount } from '@gatehouse/cert-store/port'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { clientOf } from '../policy/authorize.ts'
import { entryOf } from './entries.ts'
import type { Owner } from './external-accounts.ts'
import { admit, principalOf, verifyAccount, verifyReader, verifySigned } from './requests.ts'
import { addLink, type Urls } from './urls.ts'

const ORDERS_PER_PAGE = 100
const MAX_CONTACTS = 10
/** A `mailto` URL of one address, without header fields (RFC 6068, RFC 8555 section 7.3), in any script. */
const MAIL = /^mailto:[^\p{C}\s?,]{1,320}$/iu

const NewAccountSchema = Type.Object({
  contact: Type.Optional(Type.Array(Type.String())),
  termsOfServiceAgreed: Type.Optional(Type.Boolean()),
  onlyReturnExisting: Type.Optional(Type.Boolean()),
  externalAccountBinding: Type.Optional(Type.Unknown()),
})

const AccountSchema = Type.Object({
  contact: Type.Optional(Type.Array(Type.String())),
  status: Type.Optional(Type.String()),
})

const PageSchema = Type.Object({ after: Type.Optional(Type.String({ pattern: '^[\\w-]*$' })) })

/** Accounts (RFC 8555 section 7.3). */
export async function accountRoutes(app: FastifyInstance): Promise<void> {
  app.post('/new-account', async (request, reply) => {
    const { key, signed, urls } = await verifySigned(request, 'key')
    const newAccount = readPayload(signed, NewAccountSchema)
    const storedAccount = await app.store.acme.findAccountByKey(key.thumbprint)
    const isKnown = storedAccount !== undefined && app.externalAccounts.isInForce(storedAccount)
    const isEnded = storedAccount !== undefined && newAccount.externalAccountBinding === undefined
    if (!isKnown && (newAccount.onlyReturnExisting || isEnded)) throw absent(storedAccount)
    const account = isKnown ? storedAccount : await register(request, key, newAccount, urls)
    admit(request, account)
    reply.code(account === storedAccount ? 200 : 201).header('location', urls.account(account.id))
    return describe(account, urls)
  })

  app.post<{ Params: { id: string } }>('/account/:id', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    requireOwn(request.params.id, account)
    reply.header('location', urls.account(account.id))
    if (signed.payload.length === 0) return describe(account, urls)
    const changes = readPayload(signed, AccountSchema)
    const { status = account.status, contact = account.contact } = changes
    if (status !== account.status && status !== 'deactivated')
      throw malformed('an account can only be changed to `deactivated`')
    if (contact !== account.contact)
      await app.store.acme.changeContact(account.id, readContact(contact))
    if (status === 'deactivated')
      await app.store.acme.endAccount(account.id, status, entryOf(request, 'acme-account-end'))
    return describe({ ...account, contact, status }, urls)
  })

  app.post<{ Params: { id: string }; Querystring: { after?: string } }>(
    '/account/:id/orders',
    { schema: { querystring: PageSchema } },
    async (request, reply) => {
      const { account, urls } = await verifyReader(request)
      requireOwn(request.params.id, account)
      const { after = '' } = request.query
      const ids = await app.store.acme.listOrders(account.id, after, ORDERS_PER_PAGE)
      const [lastId] = ids.slice(ORDERS_PER_PAGE - 1)
      if (lastId !== undefined) addLink(reply, urls.orders(account.id, lastId), 'next')
      return { orders: ids.map((id) => urls.order(id)) }
    },
  )

  app.post('/key-change', async (request, reply) => {
    const { account, signed, urls } = await verifyAccount(request)
    const kid = urls.account(account.id)
    const { newKey, oldKey } = readKeyChange(signed.payload, { url: signed.url, kid })
    if (oldKey.thumbprint !== account.thumbprint)
      throw malformed('the old key is not that of the account')
    requireStrong(newKey)
    const entry = entryOf(request, 'acme-account-key')
    const taken = await app.store.acme.changeKey(account.id, account.thumbprint, newKey, entry)
    if (taken === undefined) return describe(account, urls)
    if (taken === account.id) throw malformed('the key of the account was changed meanwhile')
    reply.header('location', urls.account(taken))
    throw malformed('another account has this key', { status: 409 })
  })
}

type NewAccount = ReturnType<typeof readPayload<typeof NewAccountSchema>>

/** @throws AcmeProblem `badPublicKey` */
function requireStrong({ key }: PublicKey): void {
  const why = 'the key can be computed from its public key (CVE-2017-15361)'
  if (key.asymmetricKeyType === 'rsa' && isRocaKey(key)) throw new AcmeProblem('badPublicKey', why)
}

async function register(
  request: FastifyRequest,
  key: PublicKey,
  { termsOfServiceAgreed, externalAccountBinding: binding, contact = [] }: NewAccount,
  urls: Urls,
): Promise<ServedAccount> {
  const { server, ip } = request
  const { terms } = server.acmeOptions
  const owner =
    binding === undefined ? openCaller(request) : await boundCaller(request, key, binding, urls)
  if (terms !== undefined && !termsOfServiceAgreed)
    throw new AcmeProblem('userActionRequired', `the terms at ${terms} have to be agreed to`)
  requireStrong(key)
  request.proven = principalOf(request, owner)
  const now = server.clock.now()
  const newAccount: ServedAccount = {
    ...owner,
    id: randomBytes(16).toString('base64url'),
    thumbprint: key.thumbprint,
    jwk: key.jwk,
    status: 'valid',
    contact: readContact(contact),
    client: clientOf(request) ?? null,
    remoteAddress: ip,
    createdAt: now,
    usedAt: now,
  }
  // The store limits accounts, so that unknown clients cannot fill the disk.
  const entry = entryOf(request, 'acme-account', owner.caller === null ? 'devices' : undefined)
  const isInForce = (other: ServedAccount) => server.externalAccounts.isInForce(other)
  const account = await server.store.acme.addAccount(newAccount, entry, isInForce)
  if (account) return account
  const detail =
    'the caller has too many accounts: reuse one, or have `gatehouse-certs acme-account --renew` end them'
  throw new AcmeProblem('rateLimited', detail, { retryAfter: 86_400 })
}

/**
 * The contacts of an account. Nothing is sent to them: clients compare them with their own.
 * @throws AcmeProblem `malformed`, `unsupportedContact`, `invalidContact`
 */
function readContact(urls: readonly string[]): readonly string[] {
  if (urls.length > MAX_CONTACTS) throw malformed(`an account has ${MAX_CONTACTS} contacts at most`)
  for (const url of urls) {
    if (!/^mailto:/i.test(url))
      throw new AcmeProblem('unsupportedContact', 'a contact has to be a `mailto` URL')
    const why = 'a contact has to be `mailto:` and one address, without anything after it'
    if (!MAIL.test(url)) throw new AcmeProblem('invalidContact', why)
  }
  return urls
}

/** The caller whose key has made the binding. @throws AcmeProblem `unauthorized`, `malformed` */
async function boundCaller(
  { server }: FastifyRequest,
  accountKey: PublicKey,
  externalAccountBinding: unknown,
  urls: Urls,
): Promise<Owner> {
  const binding = readBinding(externalAccountBinding, { url: urls.members.newAccount, accountKey })
  const owners = await server.externalAccounts.find(binding.kid)
  const owner = owners.find(({ key }) => binding.isMadeWith(key))
  if (owner) return { caller: owner.caller, boundBy: owner.boundBy }
  const why = 'the external account binding is not made with a key that is in force'
  throw new AcmeProblem('unauthorized', `${why}: get one by \`gatehouse-certs acme-account\``)
}

/** The caller of an account from a network that needs no binding. @throws AcmeProblem `externalAccountRequired` */
function openCaller({ server, ip }: FastifyRequest): Record<keyof Owner, null> {
  if (server.acmeOptions.isOpen(ip)) return { caller: null, boundBy: null }
  const why =
    'an account needs an external account binding: get its key by `gatehouse-certs acme-account`'
  throw new AcmeProblem('externalAccountRequired', why)
}

function absent(storedAccount: ServedAccount | undefined): AcmeProblem {
  if (!storedAccount) return new AcmeProblem('accountDoesNotExist', 'no account has this key')
  const why = 'the account of this key has ended: bind it to a caller again'
  return new AcmeProblem('unauthorized', why)
}

/** Reveals nothing about the accounts of others. */
function requireOwn(id: string, account: ServedAccount): void {
  if (id !== account.id)
    throw new AcmeProblem('unauthorized', 'this is not the account that has signed the request')
}

function describe({ id, status, contact }: ServedAccount, urls: Urls) {
  return { status, contact, orders: urls.orders(id) }
}
