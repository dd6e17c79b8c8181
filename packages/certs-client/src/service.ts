import type { X509Certificate } from 'node:crypto'
import {
  attempt,
  type BoundedFetch,
  certificateFault,
  codeOf,
  type FetchAnswer,
  type FetchInit,
  NetError,
  parseJson,
  retryAfterOf,
  toTime,
} from '@gatehouse/net'
import type { Profile } from '@gatehouse/pki'
import { localTime, printable } from '@gatehouse/service-kit/program'
import type { ProbePort } from '@gatehouse/tls-probe'
import { type Static, type TSchema, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { certificatesIn, timeOf } from './certificate.ts'
import type { Credentials } from './credentials.ts'
import { ClientError } from './errors.ts'

/** The service may wait for a CA before it answers: 20 s unless it is configured otherwise, at most 5 minutes. */
const ISSUING_MS = 330_000
const TIMEOUT_MS = 30_000
const MAX_PAGES = 10_000
/** Everything but redirects, which are refused. */
const STATUSES = [...range(200, 300), 304, ...range(400, 600)]
const TRANSIENT = [408, 425, 429, 500, 502, 503, 504]

const Text = Type.String()
const Texts = Type.Array(Text)
const OptionalText = Type.Optional(Text)
const MaybeText = Type.Optional(Type.Union([Text, Type.Null()]))
const OptionalTexts = Type.Optional(Texts)
const Failure = Type.Object({
  code: Text,
  detail: Text,
  failedAt: OptionalText,
  action: OptionalText,
})
const Described = {
  domain: Text,
  names: Texts,
  issuer: Text,
  serialNumber: Text,
  fingerprint256: Text,
  notBefore: Text,
  notAfter: Text,
  renewAt: OptionalText,
}
const Issued = Type.Object({
  certificate: Type.String({ minLength: 1 }),
  privateKey: Type.Optional(Type.String({ minLength: 1 })),
  renewAt: OptionalText,
})
const Shown = Type.Object({ ...Described, certificate: Text, privateKey: OptionalText })
const Listed = Type.Object({
  ...Described,
  keyType: Text,
  lastFailure: Type.Optional(Failure),
  nextTryAt: OptionalText,
  served: OptionalText,
})
const Page = Type.Object({ certificates: Type.Array(Listed), next: OptionalText })
const Order = Type.Object({
  id: Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$' }),
  status: Type.Enum(['pending', 'failed', 'done']),
  step: Text,
  since: Text,
  names: Texts,
  issuer: OptionalText,
  lastError: Type.Optional(Failure),
  nextTryAt: OptionalText,
})
const Retried = Type.Object({ orders: Type.Array(Order) })
const FailingOrder = Type.Object({ ...Order.properties, notAfter: OptionalText })
const FailingPage = Type.Object({
  orders: Type.Array(FailingOrder),
  next: OptionalText,
})
const Revoked = Type.Object({
  serialNumbers: Texts,
  unknownAtCa: OptionalTexts,
  notRevoked: Type.Optional(
    Type.Array(Type.Object({ serialNumber: Text, issuer: Text, detail: Text })),
  ),
  unconfirmed: OptionalTexts,
})
const Renewals = Type.Object({
  ...{ renewing: Type.Integer(), asked: Type.Integer(), until: Text },
  neverAsking: Type.Array(
    Type.Object({
      ...{ domain: Text, client: OptionalText, address: OptionalText },
      isEnded: Type.Optional(Type.Boolean()),
    }),
  ),
})
const Deleted = Type.Object({ unconfirmed: OptionalTexts })
const AcmeAccount = Type.Object({
  ...{ id: Text, caller: Text, thumbprint: Text, status: Text, createdAt: Text },
  ...{ client: MaybeText, usedAt: MaybeText, remoteAddress: MaybeText },
})
const AcmeAccounts = Type.Object({ accounts: Type.Array(AcmeAccount), next: OptionalText })
const RollRoot = Type.Optional(
  Type.Object({ subject: Text, fingerprint256: Text, keyId: Text, notAfter: Text }),
)
const Roll = Type.Object({
  ...{ stage: Text, from: RollRoot, to: RollRoot, lostRoot: RollRoot },
  ...{ begunAt: OptionalText, usedAt: OptionalText },
  inForce: Type.Optional(
    Type.Object({
      ...{ total: Type.Integer(), renewable: Type.Integer() },
      ...{ names: Texts, until: OptionalText },
    }),
  ),
  ...{ lacking: OptionalTexts, fetchedFrom: OptionalTexts, unconfirmed: OptionalTexts },
  next: Type.Optional(Type.Object({ action: Text, from: Text })),
})
// People paste these into shells and configurations.
const AcmeKey = Type.Object({
  kid: Type.String({ pattern: '^[\\w%][\\w.%-]{0,1000}$' }),
  hmacKey: Type.String({ pattern: '^[\\w-]{21,200}$' }),
  directory: Type.String({ pattern: '^https?://[\\w.:/\\[\\]-]{1,500}$' }),
  algorithm: Text,
})
const Incident = Type.Object({
  ...{ key: Text, before: Text, accepted: Texts, issuing: Texts },
  ...{ accounts: Type.Integer(), revoked: Type.Integer() },
  certificates: Type.Array(
    Type.Object({
      ...{ domain: Text, serialNumber: Text, issuer: Text, reason: Text, fetchedAt: Text },
      ...{ client: OptionalText, address: OptionalText },
    }),
  ),
  notRevoked: Revoked.properties.notRevoked,
  unconfirmed: OptionalTexts,
})
const Adopted = Type.Object({ adopted: Type.Integer() })
const Problem = Type.Object({
  code: Type.String({ pattern: '^[A-Z][A-Z0-9_]{1,63}$' }),
  title: OptionalText,
  detail: OptionalText,
  action: OptionalText,
})

export type IssuedAnswer = Static<typeof Issued>
export type AcmeAccountAnswer = Static<typeof AcmeAccount>
export type ListedAnswer = Static<typeof Listed>
export type OrderAnswer = Static<typeof Order>
export type FailingAnswer = Static<typeof FailingOrder>
export type RevokedAnswer = Static<typeof Revoked>
export type RenewalsAnswer = Static<typeof Renewals>
export type IncidentAnswer = Static<typeof Incident>
export type RollAnswer = Static<typeof Roll>
type PageQuery = Readonly<Record<string, string>>
type RenewalFilter = 'domain' | 'caller' | 'issuer' | 'under' | 'keyType' | 'before'
type RenewalScope = { readonly [_ in RenewalFilter | 'spread']?: string | undefined }

/** An order that is under way, and after how many milliseconds to ask for it. */
export interface PendingOrder {
  readonly order: OrderAnswer
  readonly retryAfterMs?: number | undefined
}

/** A certificate, or the order for it. */
type Obtained = { readonly issued: IssuedAnswer } | PendingOrder

/** The certificate to issue, as `POST /api/certificate` takes it. */
interface IssueBody {
  readonly domain: string
  readonly names?: readonly string[]
  readonly keyType?: string | undefined
  readonly csr?: string
  /** The lifetime, such as `6d`. */
  readonly lifetime?: string | undefined
}

export type CertService = ReturnType<typeof connect>

interface ConnectOptions {
  /** The URL of the service; its path is put before those of the API. */
  readonly url: URL
  readonly credentials: Credentials
  readonly fetch: BoundedFetch
  readonly now: () => number
  readonly signal?: AbortSignal | undefined
  readonly actionFor: ActionFor
  /** The kind of certificates that it is about; default: of servers. */
  readonly profile?: Profile | undefined
}

/** Finds what to do about an error of the service, by its code; undefined if that is not known. */
export type ActionFor = (code: string) => string | undefined

interface ApiCall extends Pick<FetchInit, 'method' | 'headers' | 'timeoutMs'> {
  readonly body?: object
  /** Statuses that are no error. */
  readonly expect: readonly number[]
}

/** Opens the API of a cert-service. Every method throws ClientError. */
export function connect(options: ConnectOptions) {
  // Older services know no other profile than that of servers.
  const ofProfile = options.profile === 'client' ? { profile: options.profile } : {}
  const query = options.profile === 'client' ? '?profile=client' : ''
  const pathOf = (domain: string) => `api/certificate/${encodeURIComponent(domain)}${query}`
  const call = caller(options)
  const ask = async <S extends TSchema>(path: string, schema: S, request: Partial<ApiCall> = {}) =>
    read(await call(path, { expect: [200], ...request }), schema)
  const issuing = (path: string, body: object) =>
    call(path, { method: 'POST', body, expect: [200, 202], timeoutMs: ISSUING_MS })
  const obtained = (answer: FetchAnswer): Obtained => {
    if (answer.status === 200) return { issued: read(answer, Issued) }
    return { order: read(answer, Order), retryAfterMs: retryAfterOf(answer.headers, options.now()) }
  }
  /** Reads all pages of a listing. */
  async function* pages<S extends TSchema>(path: string, schema: S, about: PageQuery = {}) {
    for (let page = 0, query = about; page < MAX_PAGES; page += 1) {
      const content = await ask(`${path}?${new URLSearchParams(query)}`, schema)
      yield content
      const { next } = content as { readonly next?: string }
      if (next === undefined || next === query.after) return
      query = { ...about, after: next }
    }
  }
  return {
    obtain: async (body: IssueBody) =>
      obtained(await issuing('api/certificate', { ...body, ...ofProfile })),
    /** Renews a certificate that is due. One of an ACME client is renewed by that client, which is asked to. */
    async renew(domain: string): Promise<Obtained | { readonly asked: Static<typeof Renewals> }> {
      const answer = await issuing('api/certificate/renew', { domain, ...ofProfile })
      const asked = parseJson(answer.body)
      return Check(Renewals, asked) ? { asked: asked as Static<typeof Renewals> } : obtained(answer)
    },
    /** Renews all certificates that have something in common, for operators. */
    renewAll(about: RenewalScope & { readonly dryRun?: boolean | undefined }) {
      const body = { ...about, ...(about.domain !== undefined && ofProfile) }
      return ask('api/certificates/renew', Renewals, { method: 'POST', body })
    },
    /** Tries the failed orders of a name now. */
    async retry(domain: string) {
      const body = { domain, ...ofProfile }
      const request = { method: 'POST', body, timeoutMs: ISSUING_MS } as const
      return (await ask('api/certificate/retry', Retried, request)).orders
    },
    /** Finds the newest certificate of a name; undefined if there is none, `unchanged` if the tag fits. */
    async find(domain: string, tag: string): Promise<IssuedAnswer | 'unchanged' | undefined> {
      const headers = { 'if-none-match': tag }
      const answer = await call(pathOf(domain), { headers, expect: [200, 304, 404] })
      if (answer.status === 304) return 'unchanged'
      return answer.status === 404 ? undefined : read(answer, Issued)
    },
    /** Whether the newest certificate of a name is this one, which then is not sent; undefined if there is none. */
    async isNewest(domain: string, sha256: string): Promise<boolean | undefined> {
      const headers = { 'if-none-match': `"${sha256}", "${sha256}-chain"` }
      const { status } = await call(pathOf(domain), { headers, expect: [200, 304, 404] })
      return status === 404 ? undefined : status === 304
    },
    /** Shows a certificate without the private key, which the service sends to callers that may have it. */
    async show(domain: string) {
      const { privateKey: _, ...shown } = await ask(pathOf(domain), Shown)
      return shown
    },
    /** Lists the certificates that the caller may see, the newest last; with `endsBefore`, those that end first come first. */
    async *list(about: PageQuery = {}) {
      for await (const { certificates } of pages('api/certificates', Page, about))
        yield* certificates
    },
    /** Lists the orders that fail, the most urgent first. */
    async *failing(about: PageQuery = {}) {
      const query = { state: 'failing', ...about }
      for await (const { orders } of pages('api/orders', FailingPage, query)) yield* orders
    },
    /** Tells what a port serves. Services of older versions do not listen. */
    async reportProbe(body: ProbePort & { readonly domain: string; readonly sha256: string }) {
      const request = { method: 'POST', body: { ...body, ...ofProfile } } as const
      await call('api/certificate/probe', { ...request, expect: [200, 404] })
    },
    order: (id: string) => ask(`api/orders/${encodeURIComponent(id)}`, Order),
    revoke(domain: string, reason: string | undefined) {
      const body = { domain, ...ofProfile, ...(reason !== undefined && { reason }) }
      return ask('api/certificate/revoke', Revoked, { method: 'POST', body, expect: [200, 202] })
    },
    async remove(domain: string): Promise<Static<typeof Deleted>> {
      const answer = await call(pathOf(domain), { method: 'DELETE', expect: [200, 204] })
      return answer.status === 204 ? {} : read(answer, Deleted)
    },
    /** The roots that the service names; none if it has none of its own. */
    async rootBundle(): Promise<readonly X509Certificate[]> {
      const { status, body } = await call('ca/root.pem', { expect: [200, 404] })
      const roots = status === 404 ? [] : attempt(() => certificatesIn(body.toString()))
      if (roots) return roots
      throw new ClientError('CERT_CLIENT_ANSWER_INVALID', 'the answer is no bundle of roots')
    },
    roll: () => ask('api/ca/roll', Roll),
    /** Takes a step of the roll from one root to the next. */
    takeRollStep: (body: object) => ask('api/ca/roll', Roll, { method: 'POST', body }),
    /** Asks for the key that binds accounts of ACME to a caller; without one, to who asks. */
    acmeKey: (body: object) => ask('api/acme/key', AcmeKey, { method: 'POST', body }),
    /** Binds accounts of a caller to the present value of its API key: the named ones, or all. */
    adoptAcmeAccounts: (body: { readonly caller: string; readonly ids?: readonly string[] }) =>
      ask('api/acme/accounts/adopt', Adopted, { method: 'POST', body }),
    /** Ends an account, and revokes what it has ordered. */
    revokeAcmeAccount(id: string, reason: string | undefined) {
      const path = `api/acme/accounts/${encodeURIComponent(id)}/revoke`
      const body = reason === undefined ? {} : { reason }
      return ask(path, Revoked, { method: 'POST', body, expect: [200, 202] })
    },
    /** Ends and revokes what an API key has got that has leaked. */
    withdrawLeaked: (body: object) =>
      ask('api/incidents/key', Incident, { method: 'POST', body, timeoutMs: ISSUING_MS }),
    async *acmeAccounts() {
      for await (const { accounts } of pages('api/acme/accounts', AcmeAccounts)) yield* accounts
    },
    async endAcmeAccount(id: string): Promise<void> {
      const path = `api/acme/accounts/${encodeURIComponent(id)}`
      await call(path, { method: 'DELETE', expect: [204] })
    },
  }
}

function caller({ url, credentials, fetch, now, signal, actionFor }: ConnectOptions) {
  const base = url.href.endsWith('/') ? url.href : `${url.href}/`
  const ask = async (
    path: string,
    { method = 'GET', headers, body, timeoutMs = TIMEOUT_MS }: ApiCall,
  ): Promise<FetchAnswer> => {
    const init = {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        ...(body && { 'content-type': 'application/json' }),
        authorization: await credentials.authorization(),
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      timeoutMs,
      status: STATUSES,
    }
    try {
      return await fetch(new URL(path, base), init)
    } catch (error) {
      signal?.throwIfAborted()
      throw unreachable(error, now())
    }
  }
  return async (path: string, request: ApiCall): Promise<FetchAnswer> => {
    let answer = await ask(path, request)
    // A token that was valid until now: the next one may be there already.
    if (answer.status === 401 && credentials.renew?.()) answer = await ask(path, request)
    if (request.expect.includes(answer.status)) return answer
    throw refusal(answer, now(), actionFor)
  }
}

function read<S extends TSchema>(answer: FetchAnswer, schema: S): Static<S> {
  const value = parseJson(answer.body)
  if (Check(schema, value)) return value as Static<S>
  const why = `the answer with status ${answer.status} is not what cert-service sends`
  throw new ClientError('CERT_CLIENT_ANSWER_INVALID', why)
}

/** Converts the problem of the service (RFC 9457), or whatever a proxy in front of it says, to an error. */
function refusal(answer: FetchAnswer, now: number, actionFor: ActionFor): ClientError {
  const { status, headers } = answer
  const isTransient = TRANSIENT.includes(status)
  const hints = { isTransient, retryAfterMs: retryAfterOf(headers, now) }
  const problem = parseJson(answer.body)
  const why = `the service answered with status ${status}`
  if (!Check(Problem, problem)) return new ClientError('CERT_CLIENT_REFUSED', why, hints)
  const { code, title = '', detail = title, action } = problem as Static<typeof Problem>
  const message = printable(detail === '' ? `status ${status}` : detail)
  const advice = action ?? actionFor(code)
  return new ClientError(code, message, {
    ...hints,
    ...(advice !== undefined && { action: printable(advice) }),
  })
}

/** The command that tries a failed order at once. */
export function retryCommand({ names, issuer }: Pick<OrderAnswer, 'names' | 'issuer'>): string {
  return `renew ${names[0]} --now${issuer === 'ca-client' ? ' --profile client' : ''}`
}

/** Converts the failure of an order to an error. */
export function orderFailure(order: OrderAnswer, now: number): ClientError {
  const { id, lastError, nextTryAt } = order
  const { code = 'CERT_ISSUE_FAILED', detail = `the order ${id} failed`, action } = lastError ?? {}
  const times = [
    ...(lastError?.failedAt === undefined ? [] : [`it failed at ${localTime(lastError.failedAt)}`]),
    ...(nextTryAt === undefined ? [] : [`the next try is at ${localTime(nextTryAt)}`]),
    `when the cause is removed, try at once: gatehouse-certs ${retryCommand(order)}`,
  ]
  const nextTry = timeOf(nextTryAt ?? '')
  return new ClientError(printable(code), printable(`${detail} (${times.join('; ')})`), {
    isTransient: nextTry !== undefined,
    ...(nextTry !== undefined && { retryAfterMs: Math.max(0, nextTry - now) }),
    ...(action !== undefined && { action: printable(action) }),
  })
}

/** The root is not to blame for these. */
const OUT_OF_TIME = { CERT_NOT_YET_VALID: 'is not valid yet', CERT_HAS_EXPIRED: 'has expired' }

function unreachable(error: unknown, now: number): unknown {
  if (!(error instanceof NetError)) return error
  const { message, cause } = error
  const refused = `${message}; redirects are not followed`
  if (error.code === 'NET_FETCH_STATUS')
    return new ClientError('CERT_CLIENT_REFUSED', refused, { cause: error })
  const reason = codeOf(cause)
  const how = Object(OUT_OF_TIME)[reason]
  const action =
    how &&
    `By the clock of this machine, ${toTime(now)}, the certificate of the service ${how}. ` +
      'Set the clock; if it is right, look at the service.'
  if (certificateFault(reason) !== undefined)
    return new ClientError('CERT_CLIENT_UNTRUSTED', message, { cause: error, action })
  return new ClientError('CERT_CLIENT_UNREACHABLE', message, { cause: error, isTransient: true })
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i)
}
