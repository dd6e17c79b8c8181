import { AcmeError, type AcmeErrorCode } from '../errors.ts'
import { sameIdentifiers } from '../identifier.ts'
import { acceptChain, downloadCertificate, leadsTo } from '../protocol/certificate.ts'
import { type AcmeOrder, finalizeOrder, newOrder, readOrder } from '../protocol/order.ts'
import { outcomeOf } from '../protocol/problem.ts'
import { authorize, chooseChallenges, cleanUpChallenges } from './authorize.ts'
import { poll } from './retry.ts'
import {
  type CertificateRequest,
  fail,
  isFinal,
  type NamesRequest,
  type OrderIo,
  type OrderState,
  type StepState,
} from './state.ts'

/**
 * Takes the next step of an order. Store the resulting state before the next step. The order then
 * continues from there after a crash: it is not finalized twice, and an issued certificate is not
 * lost.
 *
 * A failed order gets the state `failed`. If the function throws, nothing has changed: store the state
 * from {@link afterError} and try it again, after `retryAfterMs` if the error has it. Answers to
 * challenges stay in place until the CA has decided.
 * @throws AcmeError, or what a solver throws
 */
export async function step(state: OrderState, io: OrderIo): Promise<OrderState> {
  try {
    return await next(state, io)
  } catch (error) {
    io.signal?.throwIfAborted()
    if (!isFinal(error, state, io.clock.now())) throw error
    if (state.step === 'authorizing') await cleanUpChallenges(state.tasks, io)
    return fail(state, error)
  }
}

function next(state: OrderState, io: OrderIo): OrderState | Promise<OrderState> {
  if (state.step === 'created') return placeOrder(state, io)
  if (state.step === 'ordered') return inspect(state, io)
  if (state.step === 'authorizing') return answerChallenges(state, io)
  if (state.step === 'ready') return lookAgain(state, io)
  if (state.step === 'finalizing') return finalize(state, io)
  if (state.step === 'valid') return download(state, io)
  return state
}

// Errors by which CAs reject `replaces`, besides the one that is meant for it.
const REPLACES_REFUSED: readonly AcmeErrorCode[] = [
  'ACME_ALREADY_REPLACED',
  'ACME_MALFORMED',
  'ACME_PROBLEM',
  'ACME_UNAUTHORIZED',
]

async function placeOrder(state: StepState<'created'>, io: OrderIo): Promise<OrderState> {
  const { request } = state
  const { replaces, ...requestWithoutReplaces } = request
  const { renewalInfo } = await io.transport.directory(io.signal)
  // A CA without ARI does not know `replaces` (RFC 9773 section 5).
  if (replaces !== undefined && !renewalInfo)
    return { step: 'created', request: requestWithoutReplaces }
  try {
    const order = await io.transport.send(newOrder(request), io.account, io.signal)
    if (!sameIdentifiers(order.identifiers, request.identifiers))
      throw new AcmeError('ACME_ANSWER_INVALID', 'the order has other names than requested')
    return { step: 'ordered', request, orderUrl: order.url }
  } catch (error) {
    if (replaces === undefined || !(error instanceof AcmeError)) throw error
    if (!REPLACES_REFUSED.includes(error.code)) throw error
    return { step: 'created', request: requestWithoutReplaces }
  }
}

/** Chooses the next step by the status of the order, which may be an earlier one. */
async function inspect(
  { request, orderUrl }: StepState<'ordered'>,
  io: OrderIo,
): Promise<OrderState> {
  const order = await io.transport.send(readOrder(orderUrl), io.account, io.signal)
  const tasks =
    order.status === 'pending' ? await chooseChallenges(order, request.identifiers, io) : []
  if (tasks.length > 0) return { step: 'authorizing', request, orderUrl, tasks }
  if (request.csr === undefined) return settlePrepared(order, request, io)
  if (isSettled(order)) return settle(order, request)
  return { step: 'finalizing', request, orderUrl }
}

/** Waits until the CA has taken note that all names are proven. An order that was used is none for these names. */
async function settlePrepared(order: AcmeOrder, request: NamesRequest, io: OrderIo) {
  const read = () => io.transport.send(readOrder(order.url), io.account, io.signal)
  const { status, error, url } = await poll(read, ({ status }) => status !== 'pending', io, order)
  if (status !== 'ready') throw error ?? endedOrder()
  return { step: 'ready', request, orderUrl: url } as const
}

/** An order that was prepared a while ago may be gone, expired or used: then another one is placed. */
async function lookAgain(state: StepState<'ready'>, io: OrderIo): Promise<OrderState> {
  const { request, orderUrl } = state
  const call = readOrder(orderUrl)
  const order = await io.transport.send(call, io.account, io.signal).catch((error) => {
    if (outcomeOf(error) !== 'denied') throw error
  })
  if (order?.status !== 'ready') return { step: 'created', request }
  return request.csr === undefined ? state : { step: 'finalizing', request, orderUrl }
}

async function answerChallenges(state: StepState<'authorizing'>, io: OrderIo): Promise<OrderState> {
  await authorize(state.tasks, io)
  return { step: 'ordered', request: state.request, orderUrl: state.orderUrl }
}

/** Reads the order before finalizing it, because an earlier attempt may have reached the CA. */
async function finalize(
  { request, orderUrl }: StepState<'finalizing'>,
  io: OrderIo,
): Promise<OrderState> {
  const { transport, account, signal } = io
  const read = () => transport.send(readOrder(orderUrl), account, signal)
  const open = await poll(read, ({ status }) => status !== 'pending', io)
  const csr = Buffer.from(request.csr, 'base64url')
  const submitted =
    open.status === 'ready' ? await transport.send(finalizeOrder(open, csr), account, signal) : open
  return settle(await poll(read, isSettled, io, submitted), request)
}

const isSettled = ({ status }: AcmeOrder): boolean => status === 'valid' || status === 'invalid'

function settle(order: AcmeOrder, request: CertificateRequest): StepState<'valid'> {
  const { url, status, certificate, error } = order
  if (status === 'valid' && certificate)
    return { step: 'valid', request, orderUrl: url, certificateUrl: certificate.href }
  throw error ?? endedOrder()
}

const endedOrder = (): AcmeError =>
  new AcmeError('ACME_ORDER_INVALID', 'the order is invalid, or has expired')

async function download(state: StepState<'valid'>, io: OrderIo): Promise<OrderState> {
  const { request, orderUrl, certificateUrl } = state
  const call = downloadCertificate(new URL(certificateUrl))
  const { chain, alternates } = await io.transport.send(call, io.account, io.signal)
  const accepted = acceptChain(chain, request)
  const { preferredChain } = request
  const isPreferred = preferredChain === undefined || leadsTo(chain, preferredChain)
  const preferred = isPreferred ? undefined : await findPreferred(alternates, request, io)
  return { step: 'downloaded', request, orderUrl, chain: preferred ?? accepted }
}

const MAX_ALTERNATES = 5

/** Ignores errors with alternate chains, because the default chain is already downloaded. */
async function findPreferred(urls: readonly URL[], request: CertificateRequest, io: OrderIo) {
  for (const url of urls.slice(0, MAX_ALTERNATES)) {
    try {
      const { chain } = await io.transport.send(downloadCertificate(url), io.account, io.signal)
      if (leadsTo(chain, request.preferredChain ?? '')) return acceptChain(chain, request)
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error
      io.warn(error)
    }
  }
  return undefined
}
