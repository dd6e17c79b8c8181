import { X509Certificate } from 'node:crypto'
import { authorizationFor } from './authorizations.ts'
import { type Account, type Books, find, idsOf, newId, type Order, refuse } from './books.ts'
import { type Exchange, keyOf, type Reply } from './protocol.ts'

const DAY_MS = 86_400_000

export function newOrder(books: Books, { payload }: Exchange, account: Account): Reply {
  const { orders, options } = books
  const { identifiers, profile, replaces } = payload
  for (const order of orders.values()) if (order.status === 'pending') moveOn(order)
  if (profile && !options.profiles?.[profile]) refuse(400, 'invalidProfile')
  const open = [...orders.values()].find(
    (order) =>
      order.account === account.url &&
      ['pending', 'ready'].includes(order.status) &&
      JSON.stringify(order.identifiers) === JSON.stringify(identifiers),
  )
  if (open && options.reuseOrders) return reply(books, open)
  const order: Order = {
    id: newId(),
    account: account.url,
    identifiers,
    authorizations: payload.identifiers.map((one: never) => authorizationFor(books, one)),
    profile,
    replaces,
    status: 'pending',
    looksLeft: options.processing ?? 0,
    chains: [],
    revoked: false,
  }
  orders.set(order.id, order)
  return reply(books, order, 201)
}

export function readOrder(books: Books, exchange: Exchange): Reply {
  return reply(books, find(books.orders, ...idsOf(exchange)))
}

export async function finalize(books: Books, exchange: Exchange): Promise<Reply> {
  const order = find(books.orders, ...idsOf(exchange))
  moveOn(order)
  if (order.status !== 'ready') refuse(403, 'orderNotReady', `the order is ${order.status}`)
  const { now, lifetimeMs = 90 * DAY_MS } = books.options
  const csr = Buffer.from(exchange.payload.csr, 'base64url')
  const chains = await Promise.all(books.issuers.map((one) => one.issue(csr, now(), lifetimeMs)))
  const names = new X509Certificate(chains[0] ?? '').subjectAltName?.split(', ') ?? []
  if (names.length !== order.identifiers.length) refuse(400, 'badCSR', 'it has other names')
  Object.assign(order, { status: 'processing', chains })
  return reply(books, order)
}

export function readCertificate({ origin, orders }: Books, exchange: Exchange): Reply {
  const [id, index] = idsOf(exchange)
  const { chains } = find(orders, id)
  const links = chains.map((_, i) => `<${origin}/certificate/${id}/${i}>;rel="alternate"`)
  const others = links.filter((_, i) => i !== Number(index))
  return {
    body: chains[Number(index)] ?? refuse(404, 'malformed'),
    headers: { link: [`<${origin}/directory>;rel="index"`, ...others] },
  }
}

export function revoke({ orders }: Books, exchange: Exchange, account?: Account): Reply {
  const { payload, header } = exchange
  const asked = new X509Certificate(Buffer.from(payload.certificate, 'base64url'))
  const isIts = ({ chains: [pem] }: Order) =>
    pem !== undefined && new X509Certificate(pem).serialNumber === asked.serialNumber
  const order = [...orders.values()].find(isIts) ?? refuse(404, 'malformed')
  const isOfKey = header.jwk !== undefined && keyOf(header.jwk).equals(asked.publicKey)
  if (order.account !== account?.url && !isOfKey) refuse(403, 'unauthorized')
  if (order.revoked) refuse(400, 'alreadyRevoked')
  order.revoked = true
  return { body: '' }
}

function moveOn(order: Order): void {
  const { status, authorizations } = order
  const are = (wanted: string) => authorizations.map(({ status }) => status === wanted)
  if (status === 'pending' && !are('valid').includes(false)) order.status = 'ready'
  if (status === 'pending' && are('invalid').includes(true)) order.status = 'invalid'
  if (status === 'processing' && order.looksLeft-- <= 0) order.status = 'valid'
}

function reply({ origin }: Books, order: Order, code = 200): Reply {
  moveOn(order)
  const { id, status, identifiers, authorizations, profile, replaces } = order
  return {
    status: code,
    headers: {
      location: `${origin}/order/${id}`,
      ...(status === 'processing' && { 'retry-after': '3' }),
    },
    body: {
      status,
      identifiers,
      profile,
      replaces,
      authorizations: authorizations.map(({ id }) => `${origin}/authorization/${id}`),
      finalize: `${origin}/finalize/${id}`,
      ...(status === 'valid' && { certificate: `${origin}/certificate/${id}/0` }),
      error: null,
    },
  }
}
