import { AcmeError, type AcmeErrorCode } from '../errors.ts'
import { sameIdentifiers } from '../identifier.ts'
import { acceptChain, downloadCertificate, leadsTo } from '../protocol/certificate.ts'
import { finalizeOrder, newOrder, type Order, readOrder } from '../protocol/order.ts'
import { authorize, chooseChallenges, takeAway } from './authorize.ts'
import type { OrderIo } from './io.ts'
import { poll } from './poll.ts'
import { type At, fail, isFinal, type OrderState, type Wanted } from './state.ts'

/**
 * Takes the next step of an order. The caller keeps the state that it gives before it takes
 * another, so that a crash at any point goes on where it was: nothing is finalised twice, and
 * nothing issued is lost.
 *
 * What ends the order is the state `failed`. Whatever is thrown has changed nothing: the same state
 * may be tried again, after `retryAfterMs` where the error has it, once it is kept as
 * {@link afterFault} gives it. The answer to a challenge stays in place until the CA has decided.
 *
 * @throws AcmeError, or what a solver throws
 */
export async function step(state: OrderState, io: OrderIo): Promise<OrderState> {
  try {
    return await next(state, io)
  } catch (error) {
    io.signal?.throwIfAborted()
    if (!isFinal(error, state, io.clock.now())) throw error
    if (state.step === 'authorizing') await takeAway(state.tasks, io)
    return fail(state, error)
  }
}

function next(state: OrderState, io: OrderIo): OrderState | Promise<OrderState> {
  switch (state.step) {
    case 'created':
      return place(state, io)
    case 'ordered':
      return look(state, io)
    case 'authorizing':
      return answerChallenges(state, io)
    case 'finalizing':
      return finalize(state, io)
    case 'valid':
      return download(state, io)
    default:
      return state
  }
}

// With these a CA refuses to know what is to be replaced, beside the code made for it.
const REPLACES_REFUSED: readonly AcmeErrorCode[] = [
  'ACME_ALREADY_REPLACED',
  'ACME_MALFORMED',
  'ACME_PROBLEM',
  'ACME_UNAUTHORIZED',
]

async function place(state: At<'created'>, io: OrderIo): Promise<OrderState> {
  const { wanted } = state
  const { replaces, ...others } = wanted
  const { renewalInfo } = await io.transport.directory(io.signal)
  // Without ARI the CA knows nothing of what is replaced (RFC 9773 section 5).
  if (replaces !== undefined && !renewalInfo) return { step: 'created', wanted: others }
  try {
    const order = await io.transport.send(newOrder(wanted), io.account, io.signal)
    if (!sameIdentifiers(order.identifiers, wanted.identifiers))
      throw new AcmeError('ACME_ANSWER_INVALID', 'the order has other names than were asked for')
    return { step: 'ordered', wanted, orderUrl: order.url }
  } catch (error) {
    if (replaces === undefined || !(error instanceof AcmeError)) throw error
    if (!REPLACES_REFUSED.includes(error.code)) throw error
    return { step: 'created', wanted: others }
  }
}

/** Whatever the order is at the CA, new or one that it had: the next step follows from it. */
async function look({ wanted, orderUrl }: At<'ordered'>, io: OrderIo): Promise<OrderState> {
  const order = await io.transport.send(readOrder(orderUrl), io.account, io.signal)
  const tasks =
    order.status === 'pending' ? await chooseChallenges(order, wanted.identifiers, io) : []
  if (tasks.length > 0) return { step: 'authorizing', wanted, orderUrl, tasks }
  if (isSettled(order)) return settle(order, wanted)
  return { step: 'finalizing', wanted, orderUrl }
}

async function answerChallenges(state: At<'authorizing'>, io: OrderIo): Promise<OrderState> {
  const { wanted, orderUrl, tasks } = state
  await authorize(tasks, io)
  return { step: 'ordered', wanted, orderUrl }
}

/** Looks before it finalises: an earlier try may have come through to the CA. */
async function finalize({ wanted, orderUrl }: At<'finalizing'>, io: OrderIo): Promise<OrderState> {
  const { transport, account, signal } = io
  const read = () => transport.send(readOrder(orderUrl), account, signal)
  const open = await poll(read, ({ status }) => status !== 'pending', io)
  const csr = Buffer.from(wanted.csr, 'base64url')
  const sent =
    open.status === 'ready' ? await transport.send(finalizeOrder(open, csr), account, signal) : open
  return settle(await poll(read, isSettled, io, sent), wanted)
}

const isSettled = ({ status }: Order): boolean => status === 'valid' || status === 'invalid'

function settle({ url, status, certificate, error }: Order, wanted: Wanted): At<'valid'> {
  if (status === 'valid' && certificate)
    return { step: 'valid', wanted, orderUrl: url, certificateUrl: certificate.href }
  throw error ?? new AcmeError('ACME_ORDER_INVALID', 'the order is invalid, or has expired')
}

async function download(state: At<'valid'>, io: OrderIo): Promise<OrderState> {
  const { wanted, orderUrl, certificateUrl } = state
  const call = downloadCertificate(new URL(certificateUrl))
  const { chain, alternates } = await io.transport.send(call, io.account, io.signal)
  const accepted = acceptChain(chain, wanted)
  const { preferredChain } = wanted
  const isPreferred = preferredChain === undefined || leadsTo(chain, preferredChain)
  const other = isPreferred ? undefined : await findPreferred(alternates, wanted, io)
  return { step: 'downloaded', wanted, orderUrl, chain: other ?? accepted }
}

const MAX_ALTERNATES = 5

/** Trouble with other chains must not keep back the one that is there. */
async function findPreferred(urls: readonly URL[], wanted: Wanted, io: OrderIo) {
  for (const url of urls.slice(0, MAX_ALTERNATES)) {
    try {
      const { chain } = await io.transport.send(downloadCertificate(url), io.account, io.signal)
      if (leadsTo(chain, wanted.preferredChain ?? '')) return acceptChain(chain, wanted)
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error
      io.warn(error)
    }
  }
  return undefined
}
