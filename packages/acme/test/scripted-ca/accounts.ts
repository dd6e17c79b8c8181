import type { ExternalAccount } from '../../src/protocol/jws.ts'
import { type Account, type Books, newId, refuse } from './books.ts'
import {
  type Exchange,
  isMacOf,
  isSignedBy,
  keyOf,
  type Reply,
  readJws,
  thumbprintOf,
} from './protocol.ts'

/** Who signed; undefined for a key without an account. Holds RFC 8555 section 6. */
export function authenticate(books: Books, exchange: Exchange): Account | undefined {
  const { kind, path, header, headers } = exchange
  const jws = exchange.jws ?? refuse(405, 'malformed', 'nothing was signed')
  if (headers['content-type'] !== 'application/jose+json') refuse(415, 'malformed')
  if (!books.nonces.delete(header.nonce ?? '')) refuse(400, 'badNonce')
  if (header.url !== books.origin + path) refuse(403, 'unauthorized', 'another URL was signed')
  const account = [...books.accounts.values()].find(({ url }) => url === header.kid)
  if (header.kid && !account) refuse(400, 'accountDoesNotExist')
  const jwk = account?.jwk ?? header.jwk ?? refuse(400, 'malformed', 'nobody signed')
  if (!isSignedBy(keyOf(jwk), jws)) refuse(403, 'unauthorized', 'the signature is wrong')
  if (!account && kind !== 'newAccount' && kind !== 'revokeCert') refuse(400, 'malformed')
  if (account && account.status !== 'valid') refuse(403, 'unauthorized', 'not a valid account')
  return account
}

export function newAccount({ origin, accounts, options }: Books, exchange: Exchange): Reply {
  const { header, payload } = exchange
  const jwk = header.jwk ?? refuse(400, 'malformed')
  const known = accounts.get(thumbprintOf(jwk))
  if (known) return reply(known, 200)
  if (payload.onlyReturnExisting) refuse(400, 'accountDoesNotExist')
  const { externalAccount, termsOfService } = options
  if (externalAccount) checkBinding(externalAccount, exchange)
  if (termsOfService && !payload.termsOfServiceAgreed) refuse(403, 'userActionRequired')
  const { contact = [] } = payload
  const account = { url: `${origin}/account/${newId()}`, jwk, status: 'valid', contact }
  accounts.set(thumbprintOf(jwk), account)
  return reply(account, 201)
}

function checkBinding({ kid, hmacKey }: ExternalAccount, { header, payload }: Exchange) {
  const binding = payload.externalAccountBinding ?? refuse(403, 'externalAccountRequired')
  const inner = readJws(JSON.stringify(binding))
  const isFitting = inner.header.kid === kid && inner.header.url === header.url
  const isSame = thumbprintOf(inner.payload) === thumbprintOf(header.jwk ?? {})
  if (inner.header.alg !== 'HS256' || !isFitting || !isSame || !isMacOf(hmacKey, inner.jws))
    refuse(403, 'unauthorized', 'the binding is wrong')
}

export function changeAccount(_: Books, { payload = {} }: Exchange, account: Account): Reply {
  const { contact = account.contact, status = account.status } = payload
  return reply(Object.assign(account, { contact, status }))
}

export function changeKey({ accounts }: Books, exchange: Exchange, account: Account): Reply {
  const { jws, header, payload } = readJws(JSON.stringify(exchange.payload))
  const jwk = header.jwk ?? refuse(400, 'malformed')
  const isProven = isSignedBy(keyOf(jwk), jws) && header.url === exchange.header.url
  const isFitting = thumbprintOf(payload.oldKey) === thumbprintOf(account.jwk)
  if (!isProven || !isFitting || payload.account !== account.url) refuse(400, 'malformed')
  if (accounts.has(thumbprintOf(jwk))) refuse(409, 'conflict')
  accounts.delete(thumbprintOf(account.jwk))
  account.jwk = jwk
  accounts.set(thumbprintOf(jwk), account)
  return reply(account)
}

function reply({ url, status, contact }: Account, code = 200): Reply {
  return { status: code, headers: { location: url }, body: { status, contact, orders: `${url}/o` } }
}
