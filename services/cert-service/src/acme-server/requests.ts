import {
  AcmeProblem,
  malformed,
  type PublicKey,
  readPublicKey,
  readRequest,
  type SignedRequest,
} from '@gatehouse/acme/server'
import type { ServedAccount } from '@gatehouse/cert-store/port'
import type { FastifyRequest } from 'fastify'
import type { Program } from '../policy/rules.ts'
import type { Owner } from './external-accounts.ts'
import { type Urls, urlsOf } from './urls.ts'

/** The key that has signed a request, with its account if the request names one. */
export interface Signer {
  readonly key: PublicKey
  readonly account?: ServedAccount
  readonly signed: SignedRequest
  readonly urls: Urls
}

/** The key that a request may be signed with: that of the account at its URL, or the one that it carries. */
type Identification = 'account' | 'key' | 'either'

/** Verifies a request (RFC 8555 section 6), and sets who sends it. @throws AcmeProblem */
export async function verifySigned(
  request: FastifyRequest,
  identification: Identification = 'account',
): Promise<Signer> {
  const { acme } = request.server
  const urls = urlsOf(request)
  const signed = readRequest(request.body instanceof Uint8Array ? request.body : Buffer.alloc(0))
  const url = urls.at(request.url)
  const why = `the request is signed for ${signed.url}, and was sent to ${url}`
  if (signed.url !== url)
    throw new AcmeProblem('unauthorized', `${why}: a proxy in front must pass the Host header on`)
  const { kid, key } = signed
  if (identification === (kid === undefined ? 'account' : 'key'))
    throw malformed(`the request must have \`${identification === 'key' ? 'jwk' : 'kid'}\``)
  const account = kid === undefined ? undefined : await findAccount(request, kid, urls)
  const signer = key ?? readPublicKey(account?.jwk)
  if (!signed.isSignedBy(signer)) throw malformed('the signature is not that of the key')
  // Nonces are spent after the signature is checked, so that only holders of keys fill their memory.
  if (!acme.nonces.use(signed.nonce))
    throw new AcmeProblem('badNonce', 'the nonce is too old, or was used before')
  if (account) admit(request, account)
  return { key: signer, signed, urls, ...(account && { account }) }
}

/** The account of a request whose signer must have one. */
export async function verifyAccount(request: FastifyRequest) {
  const { account, ...signer } = await verifySigned(request)
  return { ...signer, account: account as ServedAccount }
}

/** The same for a request that only reads, without a payload (RFC 8555 section 6.3). */
export async function verifyReader(request: FastifyRequest) {
  const signer = await verifyAccount(request)
  if (signer.signed.payload.length === 0) return signer
  throw malformed('this resource is read by a POST with an empty payload')
}

async function findAccount({ server }: FastifyRequest, kid: string, urls: Urls) {
  const prefix = urls.account('')
  const id = kid.startsWith(prefix) ? kid.slice(prefix.length) : undefined
  const account = id === undefined ? undefined : await server.store.acme.findAccount(id)
  if (account) return account
  const why = id === undefined ? `is not at ${urls.directory}` : 'is not known'
  throw new AcmeProblem('accountDoesNotExist', `the account ${kid} ${why}: register it again`)
}

/** Sets the principal of a request by its account: it is as good as the caller is now. */
export function admit(request: FastifyRequest, account: ServedAccount): void {
  const ended = 'the account has ended: register its key again, with a new external account key'
  if (account.status !== 'valid') throw new AcmeProblem('unauthorized', ended)
  request.acmeAccount = account
  request.proven = principalOf(request, account)
  request.server.acme.noteUse(account, request)
}

/** @throws AcmeProblem `unauthorized` */
export function principalOf(
  { server, ip }: FastifyRequest,
  { caller, boundBy }: Pick<ServedAccount, keyof Owner>,
): Program {
  if (caller === null) {
    if (server.acmeOptions.isOpen(ip)) return { method: 'acme', subject: ip }
    throw new AcmeProblem('unauthorized', `${ip} is in no network of \`acme.open\``)
  }
  const principal = server.externalAccounts.callerOf({ caller, boundBy })
  if (principal) return principal
  const cure =
    'register its key again with a new external account key, or an operator takes it over by ' +
    `\`gatehouse-certs acme-accounts --adopt ${caller} --account ID\``
  const why = server.callers.findNamed(caller)
    ? `the account has ended with the API key of ${caller} that has bound it: ${cure}`
    : `the caller ${caller} is not configured any more`
  throw new AcmeProblem('unauthorized', why)
}
