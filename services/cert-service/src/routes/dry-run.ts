import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import type { DryRun } from '../issuance/dry-run.ts'
import type { IssuanceRequest } from '../issuance/request.ts'
import { type Budget, spanOf } from '../limits/ledger.ts'
import type { DryRunSchema } from '../schemas/certificate.ts'
import type { OrderRecord } from '../store/store.ts'
import { describeRenewal, toTime } from '../times.ts'
import { describeOrder } from './orders.ts'

/** Answers what a request would lead to. */
export function sendDryRun(
  reply: FastifyReply,
  request: IssuanceRequest,
  run: DryRun,
  now: number,
): FastifyReply {
  return reply
    .header('cache-control', 'no-store')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(describeDryRun(request, run, now)))
}

function describeDryRun(
  { names, issuer }: IssuanceRequest,
  { held, order, accountUrl, proofs, budgets }: DryRun,
  now: number,
): Static<typeof DryRunSchema> {
  const [domain = ''] = names.map(({ text }) => text)
  return {
    domain,
    names: names.map(({ text }) => text),
    issuer: issuer.name,
    ...(accountUrl !== undefined && { accountUrl }),
    ...(held && { held: describeHeld(domain, held) }),
    ...(order && { order: describeOrder(order) }),
    proofs: [...proofs],
    budgets: budgets.map(describeBudget),
    obstacles: [
      ...(order ? retryOf(order, now) : []),
      ...proofs.flatMap(({ name, status, detail }) =>
        status === 'failed' ? `${name} cannot be proven: ${detail}` : [],
      ),
      ...budgets.flatMap((budget) =>
        budget.left === 0 ? `the limit \`${budget.kind}\` for ${budget.subject} is used up` : [],
      ),
    ],
  }
}

function describeHeld(domain: string, { record, fingerprint256 }: NonNullable<DryRun['held']>) {
  const { names, issuer, serialNumber } = record
  return {
    domain,
    names: [...names],
    issuer,
    serialNumber,
    fingerprint256,
    ...describeRenewal(record),
  }
}

function describeBudget({ kind, subject, left, limit, freeAt }: Budget) {
  return {
    limit: kind,
    subject,
    left,
    count: limit.count,
    per: spanOf(limit.per),
    ...(freeAt !== null && { freeAt: toTime(freeAt) }),
  }
}

function retryOf({ status, lastError, nextTryAt }: OrderRecord, now: number): readonly string[] {
  if (status !== 'failed' || nextTryAt === null || nextTryAt <= now) return []
  return [`the last try failed, the next is at ${toTime(nextTryAt)}: ${lastError?.detail}`]
}
