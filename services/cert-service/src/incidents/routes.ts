import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { IssuedCertificate } from '@gatehouse/cert-store/port'
import { toTime } from '@gatehouse/issuance/times'
import { hintAt, optional } from '@gatehouse/service-kit/config'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { entryOf } from '../acme-server/entries.ts'
import type { AccessConfig } from '../config/auth.ts'
import { CertError } from '../errors.ts'
import { requireOperator, requireProgram } from '../policy/authorize.ts'
import { BeforeSchema } from '../routes/renew.ts'
import { REVOKED, revokeAll } from '../routes/withdraw.ts'
import { guarded, NAME, TextSchema, TimeSchema } from '../schemas.ts'
import { actorOf, MAX_ACCOUNTS, reasonFor, requestedBy } from './requested.ts'

/** Certificates that an answer describes. */
const MAX_LISTED = 1_000

declare module 'fastify' {
  interface FastifyInstance {
    /** The names of the API keys of the configuration in effect. */
    readonly keyNames: readonly string[]
  }
}

const CertificateSchema = Type.Object({
  ...{ domain: Type.String(), serialNumber: Type.String(), issuer: Type.String() },
  reason: TextSchema('`keyCompromise` where the service has made the private key.'),
  fetchedAt: TimeSchema('When it was last fetched, give or take a minute.'),
  ...optional({
    client: TextSchema('The program that requested it, as it says itself.'),
    address: TextSchema('The address of its ACME client.'),
  }),
})

const { unknownAtCa, notRevoked, unconfirmed } = REVOKED

const ROUTE = guarded('revokeLeaked', [403, 404, 422], {
  summary: 'Revoke what an API key has got that has leaked',
  description:
    'For operators, whose key is not limited to names. Ends its ACME accounts and its orders, and revokes what it has ' +
    'requested, also what was replaced. The key itself is in the configuration: replace it first. Sent again, it goes on ' +
    'with what is left.',
  body: Type.Object({
    key: Type.String({ ...NAME, description: 'Name of an API key, also of one that is gone.' }),
    ...optional({
      dryRun: Type.Boolean({ description: 'Only say what would be ended and revoked.' }),
      before: BeforeSchema,
    }),
  }),
  response: {
    200: Type.Object({
      key: TextSchema('Its present name.'),
      before: TimeSchema('What was made before is revoked.'),
      accepted: Type.Array(TextSchema('SHA-256 of a value of it that is accepted now.')),
      accounts: Type.Integer({ description: 'ACME accounts that have ended.' }),
      revoked: Type.Integer({ description: 'Certificates that are revoked.' }),
      certificates: Type.Array(CertificateSchema, { description: `At most ${MAX_LISTED}.` }),
      issuing: Type.Array(TextSchema('First name of what is being issued for it: send it again.')),
      ...{ unknownAtCa, notRevoked, unconfirmed },
    }),
  },
})

/** `POST /api/incidents/key`. */
export const incidentRoutes: FastifyPluginAsyncTypebox<Pick<AccessConfig, 'auth'>> = async (
  app,
  { auth },
) => {
  await app.decorateReloaded('keyNames', { auth }, ({ auth }) =>
    (auth.psk?.keys ?? []).map(({ name }) => name),
  )
  const onRequest = requireProgram(app)
  app.post('/api/incidents/key', { onRequest, schema: ROUTE }, async (request) => {
    requireOperator(request, ['revoke'])
    const { key: text, dryRun = false, before } = request.body
    const key = app.callers.renamed().get(text) ?? text
    const accepted = app.callers.digestsOf(key)
    if (accepted.length === 0) await requireKnown(app, key)
    const issuing = dryRun ? [] : await endOrders(app, key)
    // A whole second, as answers have times, and after what was being issued.
    const soon = Math.floor(app.clock.now() / 1_000 + 1) * 1_000
    const bounds = { before: before === undefined ? soon : Date.parse(before), dryRun }
    return {
      ...{ key, before: toTime(bounds.before), accepted: [...accepted], issuing },
      accounts: await endAccounts(request, key, bounds),
      ...(await withdraw(request, key, bounds)),
    }
  })
}

interface Bounds {
  /** Only what was made before, in ms since the epoch. */
  readonly before: number
  readonly dryRun: boolean
}

/** Refuses a name that no key has, if none with it has got anything before. @throws CertError CERT_NOT_FOUND */
async function requireKnown({ store, clock, keyNames }: FastifyInstance, key: string) {
  const certificates = await store.listRequested(actorOf(key), { now: clock.now() })
  if (certificates.length > 0) return
  throw new CertError('CERT_NOT_FOUND', `no API key is called ${key}${hintAt(key, keyNames)}`)
}

/** Ends the orders of a key, and waits for those that are under way. Gives the first names of what goes on then. */
async function endOrders({ store, issuance }: FastifyInstance, key: string) {
  const underWay = async () =>
    (await store.abandonOrders(actorOf(key))).map(([first = '']) => first)
  await Promise.all((await underWay()).map((text) => issuance.settle({ text })))
  return underWay()
}

/** Ends the ACME accounts of a key, and replaces the key by which clients bind others. Gives how many have ended. */
async function endAccounts(request: FastifyRequest, key: string, bounds: Bounds) {
  const { externalAccounts, store } = request.server
  const accounts = await store.acme.listAccounts(key, MAX_ACCOUNTS)
  const valid = accounts.filter(({ status }) => status === 'valid')
  const kept = valid.flatMap(({ id, createdAt }) => (createdAt < bounds.before ? [] : id))
  const ended = valid.length - kept.length
  if (bounds.dryRun || ended === 0) return ended
  const entry = { ...entryOf(request, 'acme-key'), detail: `of ${key}, renewed: it leaked` }
  await externalAccounts.renew({ caller: key, boundBy: '' }, kept, entry)
  return ended
}

async function withdraw(request: FastifyRequest, key: string, { before, dryRun }: Bounds) {
  const pages = await Array.fromAsync(requestedBy(request.server, key, before))
  const byId = new Map(pages.flat().map((certificate) => [certificate.id, certificate]))
  const certificates = [...byId.values()]
  if (dryRun) return describe(certificates)
  const { serialNumbers, ...rest } = await revokeAll(request, pages, reasonFor, { mayFail: true })
  const revoked = new Set(serialNumbers)
  const isRevoked = ({ serialNumber }: IssuedCertificate) => revoked.has(serialNumber)
  return { ...rest, ...describe(certificates.filter(isRevoked)) }
}

function describe(certificates: readonly IssuedCertificate[]) {
  const described = certificates.slice(0, MAX_LISTED).map((certificate) => {
    const { names, serialNumber, issuer, fetchedAt, client, address } = certificate
    return {
      ...{ domain: names[0] ?? '', serialNumber, issuer, reason: reasonFor(certificate) },
      fetchedAt: toTime(fetchedAt),
      ...(client && { client }),
      ...(address && { address }),
    }
  })
  return { revoked: certificates.length, certificates: described }
}
