import type { Identifier } from '../../src/identifier.ts'
import {
  type Account,
  type Authorization,
  type Books,
  type Challenge,
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

export async function readAuthorization(books: Books, exchange: Exchange): Promise<Reply> {
  const { origin, authorizations } = books
  const [id] = idsOf(exchange)
  const authorization = find(authorizations, id)
  for (const challenge of authorization.challenges)
    if (challenge.work && challenge.work.looksLeft-- <= 0)
      await decide(books, authorization, challenge)
  const { identifier, wildcard, challenges, status } = authorization
  const withUrls = challenges.map(({ id: challengeId, work: _, ...challenge }) => ({
    ...challenge,
    url: `${origin}/challenge/${id}/${challengeId}`,
  }))
  return { body: { status, identifier, ...(wildcard && { wildcard }), challenges: withUrls } }
}

export async function validate(books: Books, exchange: Exchange, account: Account): Promise<Reply> {
  const { origin, authorizations, options } = books
  const [id, challengeId] = idsOf(exchange)
  const authorization = find(authorizations, id)
  const challenge =
    authorization.challenges.find(({ id }) => id === challengeId) ?? refuse(404, 'malformed')
  const { type, token, status } = challenge
  if (status !== 'pending') refuse(400, 'malformed', `the challenge is ${status}`)
  const keyAuthorization = `${token}.${thumbprintOf(account.jwk)}`
  challenge.status = 'processing'
  challenge.work = { keyAuthorization, looksLeft: (options.validating ?? 0) - 1 }
  if (!options.validating) await decide(books, authorization, challenge)
  return { body: { type, token, status: challenge.status, url: origin + exchange.path } }
}

async function decide({ options }: Books, authorization: Authorization, challenge: Challenge) {
  const { identifier, wildcard } = authorization
  const { type, token, work } = challenge
  delete challenge.work
  const { keyAuthorization = '' } = work ?? {}
  const fault = await options.validate?.({ type, identifier, wildcard, token, keyAuthorization })
  challenge.status = authorization.status = fault ? 'invalid' : 'valid'
  if (fault) challenge.error = problem(fault, `the CA saw a fault of kind ${fault}`)
}
