import type { Identifier } from '../identifier.ts'
import {
  type Account,
  type Authorization,
  type Books,
  find,
  idsOf,
  newId,
  refuse,
} from './books.ts'
import { type Exchange, problem, type Reply, thumbprintOf } from './protocol.ts'

const CHALLENGES = ['dns-persist-01', 'http-01', 'dns-01', 'tls-alpn-01']

/** A new one, or one that was given before. */
export function authorizationFor(books: Books, { type, value }: Identifier): Authorization {
  const { authorizations, options } = books
  const wildcard = value.startsWith('*.')
  const identifier = { type, value: wildcard ? value.slice(2) : value }
  const known = [...authorizations.values()].find(
    (one) =>
      one.status === 'valid' &&
      one.identifier.value === identifier.value &&
      one.wildcard === wildcard,
  )
  if (options.reuseAuthorizations && known) return known
  const challenges = (options.challenges ?? CHALLENGES)
    .filter((type) => !wildcard || type.startsWith('dns-'))
    .map((type) => ({ id: newId(), type, token: newId(), status: 'pending' }))
  const authorization = { id: newId(), identifier, wildcard, challenges, status: 'pending' }
  authorizations.set(authorization.id, authorization)
  return authorization
}

export function readAuthorization({ origin, authorizations }: Books, exchange: Exchange): Reply {
  const [id] = idsOf(exchange)
  const { identifier, wildcard, challenges, status } = find(authorizations, id)
  const withUrls = challenges.map(({ id: challengeId, ...challenge }) => ({
    ...challenge,
    url: `${origin}/challenge/${id}/${challengeId}`,
  }))
  return { body: { status, identifier, ...(wildcard && { wildcard }), challenges: withUrls } }
}

export async function validate(
  { origin, authorizations, options }: Books,
  exchange: Exchange,
  account: Account,
): Promise<Reply> {
  const [id, challengeId] = idsOf(exchange)
  const authorization = find(authorizations, id)
  const { identifier, wildcard, challenges } = authorization
  const challenge = challenges.find(({ id }) => id === challengeId) ?? refuse(404, 'malformed')
  const { type, token, status } = challenge
  if (status !== 'pending') refuse(400, 'malformed', `the challenge is ${status}`)
  const keyAuthorization = `${token}.${thumbprintOf(account.jwk)}`
  const fault = await options.validate?.({ type, identifier, wildcard, token, keyAuthorization })
  challenge.status = authorization.status = fault ? 'invalid' : 'valid'
  if (fault) challenge.error = problem(fault, `the CA saw a fault of kind ${fault}`)
  return { body: { type, token, status: challenge.status, url: origin + exchange.path } }
}
