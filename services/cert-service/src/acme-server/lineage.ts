import { parseRenewalId, renewalId } from '@gatehouse/acme/server'
import {
  type CertificateRecord,
  type Head,
  type InService,
  MAX_FOLLOWED,
  type Predecessor,
  type ServedOrder,
  type Store,
} from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import { hasBegun, renewalWindow } from '@gatehouse/issuance/times'
import { type Csr, parseCertificate } from '@gatehouse/pki'
import type { FastifyRequest } from 'fastify'
import { actorOf } from '../policy/authorize.ts'

interface Orderer {
  /** The caller, as the audit trail names it. */
  readonly actor: string
  readonly account: string
  readonly address: string
}

type LineageOrder = Pick<ServedOrder, 'account' | 'names' | 'profile' | 'replaces'>

/** The lineages of the client that orders: those of its caller, for the same names. */
export async function headsOf(
  request: FastifyRequest,
  order: LineageOrder,
): Promise<readonly Head[]> {
  const { actor, account, address } = ordererOf(request, order)
  const heads = await request.server.store.listHeads(actor, order.names, { account, address })
  return heads.filter((head) => isSame(head, order))
}

/**
 * Finds the lineage that an order continues, so that each holder of a key has one: the one that the client names; else that of the
 * same key; else the only one of this account at this address; else one of this caller that is due, or whose account has ended. An
 * order continues one lineage at most. Undefined if it begins one.
 * @param knownHeads - its heads, where they were read before
 */
export async function predecessorOf(
  request: FastifyRequest,
  order: LineageOrder,
  csr?: Csr | null,
  knownHeads?: readonly Head[],
): Promise<Predecessor | undefined> {
  const { store, clock } = request.server
  const orderer = ordererOf(request, order)
  const named = await findNamed(store, order, orderer)
  if (named) return named === 'in use' ? undefined : named
  const heads = knownHeads ?? (await headsOf(request, order))
  const predecessor = headOfClient(heads, orderer, clock.now(), csr)
  if (predecessor || heads.length === 0) return predecessor
  const inForce = await request.server.externalAccounts.findInForce(heads)
  const waiting = heads.filter((head) => isDue(head, clock.now()) || !inForce.has(head.account))
  return pick(longestDue(waiting, orderer), 'due')
}

/** Whether a certificate gives way to another one: its client may renew it by now, or a clock misdated it. */
export function isDue(record: Parameters<typeof renewalWindow>[0], now: number): boolean {
  return renewalWindow(record).start <= now || !hasBegun(record, now)
}

function ordererOf(request: FastifyRequest, { account }: LineageOrder): Orderer {
  return { actor: actorOf(request).actor, account, address: request.ip }
}

/**
 * Follows what the client names in `replaces` to the newest certificate of that lineage. What followed it is passed over while its
 * client has not fetched it: the answer was lost, or two orders were open. Else another machine has it, as after an image was cloned.
 */
async function findNamed(
  store: Pick<Store, 'listBySerial' | 'findById'>,
  { names, profile, replaces }: LineageOrder,
  { actor, account }: Orderer,
): Promise<Predecessor | 'in use' | undefined> {
  const id = replaces === null ? undefined : parseRenewalId(replaces)
  const records = id ? await store.listBySerial(id.serialNumber) : []
  let record = records.find(({ certificate }) => renewalId(certificate) === replaces)
  for (let tries = 0; record && record.replacedBy !== null; tries += 1) {
    const next: (CertificateRecord & InService) | undefined = await store.findById(
      record.replacedBy,
    )
    if (!next || next.downloadedAt !== null || tries === MAX_FOLLOWED) return 'in use'
    record = next
  }
  const isOwn = record?.account && (record.askedBy === actor || record.account === account)
  const isFit =
    record && profileOf(record) === profile && record.names.some((name) => names.includes(name))
  return isOwn && isFit ? pick(record, 'named') : undefined
}

/** The lineage of the same key, or else the only one of this account at this address. */
function headOfClient(
  heads: readonly Head[],
  { account, address }: Orderer,
  now: number,
  csr: Csr | null | undefined,
): Predecessor | undefined {
  const sameKey =
    csr && heads.find(({ certificate }) => parseCertificate(certificate).spki.equals(csr.spki))
  if (sameKey) return pick(sameKey, 'key')
  const isOfClient = (head: Head) => head.account === account && head.address === address
  const [head, ...otherHeads] = heads.filter(isOfClient)
  // One that is newer may be of another machine behind the same address.
  const isOld = head && now - head.notBefore > (head.notAfter - head.notBefore) / 10
  return isOld && otherHeads.length === 0 ? pick(head, 'address') : undefined
}

/** The one that was last renewed from this address, else the one that is longest due. */
function longestDue(heads: readonly Head[], { address }: Orderer): Head | undefined {
  const [first] = heads.toSorted(
    (a, b) =>
      Number(b.address === address) - Number(a.address === address) ||
      renewalWindow(a).start - renewalWindow(b).start,
  )
  return first
}

function pick(
  record: Pick<CertificateRecord, 'id' | 'requestKey'> | undefined,
  reason: Predecessor['reason'],
): Predecessor | undefined {
  return record && { id: record.id, requestKey: record.requestKey, reason }
}

function isSame(record: Pick<CertificateRecord, 'issuer' | 'names'>, order: LineageOrder): boolean {
  const names = new Set(order.names)
  const isEqual =
    record.names.length === names.size && record.names.every((name) => names.has(name))
  return isEqual && profileOf(record) === order.profile
}
