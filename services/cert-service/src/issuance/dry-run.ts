import { AcmeError, type Solver } from '@gatehouse/acme'
import { describeCertificate } from '@gatehouse/issuance'
import type { Budget } from '@gatehouse/issuance/issuers'
import type { Actor, IssuanceRequest } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'
import { hasCode } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { durationText } from '@gatehouse/service-kit/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CertError } from '../errors.ts'
import { type DryRun, describeOrder } from '../schemas.ts'

const MAX_RUNS = 8
const BATCH = 8
const TIMEOUT_MS = 10_000

type Proof = DryRun['proofs'][number]

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Checks what a request would lead to, without ordering or writing anything.
     * @throws CertError `CERT_BUSY` if too many run; what `Issuance.find` throws
     */
    dryRun(request: IssuanceRequest, actor: Actor, obstacles?: readonly string[]): Promise<DryRun>
  }
}

/** Bounds the dry runs of programs and people together. */
export const dryRuns = fp(
  async (app: FastifyInstance) => {
    let running = 0
    app.decorate('dryRun', async (request, actor, obstacles = []) => {
      if (running >= MAX_RUNS)
        throw new CertError('CERT_BUSY', 'too many dry runs at once', { retryAfter: 5 })
      running += 1
      try {
        const run = await forecast(request, actor, app)
        return { ...run, obstacles: [...obstacles, ...run.obstacles] }
      } finally {
        running -= 1
      }
    })
  },
  {
    name: 'cert-service/dry-runs',
    dependencies: [
      'cert-service/issuance',
      'cert-service/issuers',
      'cert-service/store',
      'service-kit/clock',
    ],
  },
)

/** Tries the fallback if the issuer refuses, as a request does. The limits of a caller are the same there. */
async function forecast(
  request: IssuanceRequest,
  actor: Actor,
  app: FastifyInstance,
): Promise<DryRun> {
  const { isLimited, ...run } = await describe(request, actor, app)
  const fallback = app.issuance.fallbackOf(request)
  if (!fallback || run.held || isLimited || run.obstacles.length === 0) return run
  const next = await forecast(fallback, actor, app)
  return { ...next, proofs: [...run.proofs, ...next.proofs] }
}

async function describe(
  request: IssuanceRequest,
  actor: Actor,
  { issuance, store, ledger }: FastifyInstance,
): Promise<DryRun & { readonly isLimited: boolean }> {
  const { issuer, requestKey } = request
  const names = request.names.map(({ text }) => text)
  const [domain = ''] = names
  const certificate = await issuance.find(request)
  const flight = issuance.flights.get(requestKey)
  const latest = flight ? flight.order : await store.findOrderByRequestKey(requestKey)
  const order = latest?.status === 'done' ? undefined : latest
  const accountUrl = await issuer.accountUrl?.()
  const proofs = await proofsOf(request)
  const caller = actor.isOperator ? undefined : actor.actor
  const budgets = await ledger.budgets(issuer.name, names, caller)
  const refusals = certificate ? [] : await issuance.refusals(request, actor)
  return {
    domain,
    names,
    issuer: issuer.name,
    ...(accountUrl !== undefined && { accountUrl }),
    ...(certificate && { held: { domain, ...describeCertificate(certificate.record) } }),
    ...(order && { order: describeOrder(order) }),
    proofs,
    budgets: budgets.map(describeBudget),
    isLimited: refusals.some((refusal) => hasCode(refusal, 'CERT_CALLER_LIMITED')),
    // A certificate in the store is the answer, whatever would hinder a new one.
    obstacles: certificate
      ? []
      : [
          ...refusals.map(({ message }) => message),
          ...proofs.flatMap(({ name, status, detail }) =>
            status === 'failed' ? `${name} cannot be proven: ${detail}` : [],
          ),
          ...budgets.flatMap(({ left, kind, subject }) =>
            left === 0 ? `the limit \`${kind}\` for ${subject} is used up` : [],
          ),
        ],
  }
}

function describeBudget({ kind, subject, left, limit, freeAt }: Budget) {
  return {
    limit: kind,
    subject,
    left,
    count: limit.count,
    per: durationText(limit.per),
    ...(freeAt !== null && { freeAt: toTime(freeAt) }),
  }
}

async function proofsOf({ issuer, names }: IssuanceRequest): Promise<Proof[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const proofs: Proof[] = []
  for (let start = 0; start < names.length; start += BATCH) {
    const batch = names.slice(start, start + BATCH).flatMap((name) => {
      const solver = issuer.solverFor?.(name)
      return solver ? prove(name, solver, signal) : []
    })
    proofs.push(...(await Promise.all(batch)))
  }
  return proofs
}

async function prove(name: Name, solver: Solver, signal: AbortSignal): Promise<Proof> {
  const head = { name: name.text, challenge: solver.type }
  if (!solver.check) {
    const detail = 'only the CA can check whether it reaches the responder'
    return { ...head, status: 'unchecked', detail }
  }
  try {
    const { target, isProviderChecked } = await solver.check(name, signal)
    const detail = isProviderChecked
      ? `the record goes to ${target}, and its provider accepts the credentials`
      : `the record goes to ${target}; its provider cannot be checked without a change`
    return { ...head, status: 'ready', detail }
  } catch (error) {
    if (error instanceof AcmeError)
      return { ...head, status: 'failed', detail: error.message, code: error.code }
    if (!signal.aborted) throw error
    return { ...head, status: 'unchecked', detail: 'name servers or provider took too long' }
  }
}
