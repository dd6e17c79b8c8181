import { malformed, type PublicKey, readPayload, toIdentifier } from '@gatehouse/acme/server'
import type { Proof, ServedOrder } from '@gatehouse/cert-store/port'
import { readName } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'
import type { Name } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { requireOrder } from './orders.ts'
import { CHALLENGES, type ChallengeType } from './proofs.ts'
import { verifyAccount } from './requests.ts'
import { addLink, type Urls } from './urls.ts'

const AuthorizationSchema = Type.Object({ status: Type.Optional(Type.String()) })

interface AuthorizationRoute {
  readonly Params: { readonly id: string; readonly n: string }
}

interface OfChallenge {
  readonly Params: AuthorizationRoute['Params'] & { readonly type: string }
}

interface Authorization {
  readonly order: ServedOrder
  readonly n: number
  readonly name: Name
}

/** Authorizations and challenges (RFC 8555 section 7.5). */
export async function authorizationRoutes(app: FastifyInstance): Promise<void> {
  app.post<AuthorizationRoute>('/authorization/:id/:n', async (request) => {
    const { account, signed, urls } = await verifyAccount(request)
    const authorization = requireName(await requireOrder(request, account), request.params.n)
    if (signed.payload.length === 0) return describe(authorization, urls)
    const { status } = readPayload(signed, AuthorizationSchema)
    if (status !== 'deactivated')
      throw malformed('an authorization can only be changed to `deactivated`')
    const order = await deactivate(app, authorization)
    return describe({ ...authorization, order }, urls)
  })

  app.post<OfChallenge>('/challenge/:id/:n/:type', async (request, reply) => {
    const { account, key, signed, urls } = await verifyAccount(request)
    const order = await requireOrder(request, account)
    const authorization = requireName(order, request.params.n)
    const { n, name } = authorization
    const type = CHALLENGES.find((challenge) => challenge === request.params.type)
    if (!type) throw absent()
    addLink(reply, urls.authorization(order.id, n), 'up')
    // A POST-as-GET only reads it.
    const isTry = signed.payload.length > 0 && order.status === 'pending'
    const proven = isTry ? await prove(request, authorization, type, key) : order
    return describeChallenge({ order: proven, n, name }, type, urls)
  })
}

function requireName(order: ServedOrder, text: string): Authorization {
  const n = Number(text)
  const name = order.names[n]
  if (name === undefined || String(n) !== text) throw absent()
  return { order, n, name: readName(name, order.profile) }
}

/** Tries a challenge, once: the name is proven then, or the order is over. */
async function prove(
  { server }: FastifyRequest,
  { order, n, name }: Authorization,
  type: ChallengeType,
  { thumbprint }: PublicKey,
): Promise<ServedOrder> {
  const { acme, store, clock } = server
  const { token } = order.proofs?.[n] ?? { token: '' }
  const problem = await acme.prover.check(name, type, `${token}.${thumbprint}`)
  const status = problem ? 'invalid' : 'valid'
  const tried = { token, status, at: clock.now(), type } as const
  const proof: Proof = { ...tried, ...(problem && { error: problem.toJSON() }) }
  await store.acme.changeOrder(order.id, (order) => {
    if (order.status !== 'pending') return undefined
    const proofs = (order.proofs ?? []).map((storedProof, i) =>
      i === n && storedProof.status === 'pending' ? proof : storedProof,
    )
    return { proofs, status: statusBy(proofs), error: order.error }
  })
  return (await store.acme.findOrder(order.id)) ?? order
}

/** Gives up an authorization (RFC 8555 section 7.5.2). An order that was not finalized is over with it. */
async function deactivate({ store }: FastifyInstance, authorization: Authorization) {
  const { order, n } = authorization
  await store.acme.changeOrder(order.id, (stored) => {
    const { status, error } = stored
    const proofs = stored.proofs ?? stored.names.map(() => provenBy(stored))
    const isOpen = status === 'pending' || status === 'ready'
    return {
      proofs: proofs.map((storedProof, i) =>
        i === n && storedProof.status !== 'invalid'
          ? { ...storedProof, status: 'deactivated' }
          : storedProof,
      ),
      status: isOpen ? 'invalid' : status,
      error,
    }
  })
  return (await store.acme.findOrder(order.id)) ?? order
}

function statusBy(proofs: readonly Proof[]): ServedOrder['status'] {
  if (proofs.some(({ status }) => status === 'invalid')) return 'invalid'
  return proofs.every(({ status }) => status === 'valid') ? 'ready' : 'pending'
}

/** A caller has its names by the rules, so that its authorizations are valid from the beginning. */
function describe({ order, n, name }: Authorization, urls: Urls) {
  const { type, value } = toIdentifier(name)
  const proof = order.proofs?.[n]
  const isTried = proof && proof.token !== order.id
  const types = isTried ? CHALLENGES : [name.kind === 'wildcard' ? 'dns-01' : 'http-01']
  return {
    status: statusOf(order, proof),
    expires: toTime(order.expiresAt),
    identifier: { type, value: value.replace(/^\*\./, '') },
    ...(name.kind === 'wildcard' && { wildcard: true }),
    challenges: types.map((type) => describeChallenge({ order, n, name }, type, urls)),
  }
}

function statusOf(order: ServedOrder, proof: Proof | undefined): string {
  if (order.status === 'invalid' && proof?.status === 'pending') return 'expired'
  return proof?.status ?? 'valid'
}

function describeChallenge({ order, n }: Authorization, type: string, urls: Urls) {
  const proof = order.proofs?.[n] ?? provenBy(order)
  const { token, at, error, type: triedType = type } = proof
  const isTried = triedType === type
  // A challenge keeps its result.
  const reached = at === undefined ? 'pending' : 'valid'
  const status = proof.status === 'deactivated' ? reached : proof.status
  return {
    type,
    url: urls.challenge(order.id, n, type),
    token,
    status: isTried ? status : 'pending',
    ...(status === 'valid' && isTried && { validated: toTime(at ?? order.at) }),
    ...(isTried && error && { error }),
  }
}

/** The proof that clients see of a name that the rules grant: its token is never asked for. */
function provenBy({ id, at }: ServedOrder): Proof {
  return { status: 'valid', token: id, at }
}

const absent = () => malformed('the order has no such authorization', { status: 404 })
