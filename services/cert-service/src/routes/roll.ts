import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { nextStep } from '@gatehouse/issuance/issuers'
import { toTime } from '@gatehouse/issuance/times'
import type { Authority } from '@gatehouse/pki'
import { optional } from '@gatehouse/service-kit/config'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { actorOf, requireOperator, requireProgram } from '../policy/authorize.ts'
import { guarded, TextSchema, TimeSchema } from '../schemas.ts'
import { UnconfirmedSchema } from './withdraw.ts'

/** Characters of a certificate or key in PEM. */
const MAX_PEM = 20_000

/** `GET` and `POST /api/ca/roll`. */
export const rollRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const onRequest = requireProgram(app)
  app.get('/api/ca/roll', { onRequest, schema: STATUS }, async (request, reply) => {
    requireOperator(request, ['read'])
    reply.header('cache-control', 'no-store')
    return describeRoll(request)
  })
  app.post('/api/ca/roll', { onRequest, schema: STEP }, async (request, reply) => {
    requireOperator(request, ['issue', 'revoke'])
    await take(request, request.body)
    const unconfirmed = [...(await app.store.awaitReplicas())]
    reply.header('cache-control', 'no-store')
    return { ...(await describeRoll(request)), ...(unconfirmed.length > 0 && { unconfirmed }) }
  })
}

const RootSchema = Type.Object({
  subject: TextSchema('Its name.'),
  fingerprint256: TextSchema('SHA-256 of its certificate, hexadecimal.'),
  keyId: TextSchema('Its key identifier, hexadecimal.'),
  notAfter: TimeSchema('Its end.'),
})

const RollSchema = Type.Object({
  stage: Type.Enum(['none', 'begun', 'used', 'finished'], {
    description: 'The new root signs once it is used. Both are to be trusted until it is finished.',
  }),
  ...optional({
    from: RootSchema,
    to: RootSchema,
    lostRoot: Type.Object(RootSchema.properties, {
      description: 'A root before the old one: the new one cuts off whoever trusts only that.',
    }),
    begunAt: TimeSchema('When the roll began.'),
    usedAt: TimeSchema('Since when the new root signs.'),
    inForce: Type.Object(
      {
        total: Type.Integer(),
        renewable: Type.Integer({
          description:
            'Those in service that are renewed. Others were replaced, or nobody fetches them.',
        }),
        names: Type.Array(Type.String(), { description: 'Some of their names.' }),
        until: Type.Optional(TimeSchema('When the last of them ends.')),
      },
      {
        description: 'The certificates below the old root that are neither expired nor revoked.',
      },
    ),
    lacking: Type.Array(Type.String(), {
      description:
        'The clients that have said which roots they trust since the beginning, without the new one. What others ' +
        'trust is not known.',
    }),
    fetchedFrom: Type.Array(Type.String(), {
      description:
        'The addresses from which all roots were fetched since the beginning, the last 1,000.',
    }),
    next: Type.Object(
      { action: Type.Enum(['use', 'finish']), from: TimeSchema('From when on it is possible.') },
      { description: 'The next step.' },
    ),
    unconfirmed: UnconfirmedSchema,
  }),
})

const STATUS = guarded('getRootRoll', [403], {
  summary: 'How far the CA has come from one root to the next',
  description: 'For operators, whose key is not limited to names.',
  response: { 200: RollSchema },
})

const PemSchema = (description: string) => Type.String({ maxLength: MAX_PEM, description })
const forStep = (action: string) => ({ properties: { action: { const: action } } })

const StepSchema = Type.Object(
  {
    action: Type.Enum(['begin', 'use', 'back', 'finish', 'cancel']),
    ...optional({
      root: PemSchema('begin: the new root in PEM, instead of one that is made here.'),
      key: PemSchema(
        'begin: the private key of `root` in PEM. It signs intermediates and lists, and is not stored.',
      ),
      signerKey: PemSchema(
        'begin: the private key of the old root in PEM, if it is offline. It signs the cross certificate and a ' +
          'list, and is not stored.',
      ),
      cross: Type.Boolean({
        description:
          'begin: `false` if no client that trusts only the old root is to accept what the new one signs, as its ' +
          'key is compromised. Default: `true`.',
      }),
      now: Type.Boolean({
        description: 'use: less than 14 days after the beginning, or although clients are cut off.',
      }),
      force: Type.Boolean({
        description: 'finish: although certificates are in force, or clients lack the new root.',
      }),
      forgetKey: Type.Boolean({
        description: 'finish: delete the private key of the old root from the store, for good.',
      }),
    }),
  },
  {
    description: 'A step of the roll.',
    dependentSchemas: {
      ...{ root: forStep('begin'), key: forStep('begin'), signerKey: forStep('begin') },
      ...{ cross: forStep('begin'), now: forStep('use') },
      ...{ force: forStep('finish'), forgetKey: forStep('finish') },
    },
  },
)

const STEP = guarded('stepRootRoll', [403, 409, 422], {
  summary: 'Begin to roll the root, use the new one, go back, finish, or cancel',
  description:
    'For operators, whose key is not limited to names and has the rights `issue` and `revoke`. A step that was ' +
    'taken before is answered by the stage, except `begin`: 409 says that a roll is under way.',
  body: StepSchema,
  response: { 200: RollSchema },
})

async function take(request: FastifyRequest, body: Static<typeof StepSchema>): Promise<void> {
  const { action, root, key, signerKey, cross = true, now, force, forgetKey = false } = body
  const { ca, clock } = request.server
  const entry = { at: clock.now(), action: 'ca-roll', ...actorOf(request), names: [] } as const
  if (action === 'begin') await ca.roll.begin({ root, key, signerKey, isCrossed: cross }, entry)
  else await ca.roll.step(action, { isForced: now ?? force ?? false, forgetsKey: forgetKey }, entry)
  request.log.info({ action }, 'the root of the CA rolls')
}

async function describeRoll({ server }: FastifyRequest): Promise<Static<typeof RollSchema>> {
  const { oldRoot, newRoot, roll, facts } = await server.ca.roll.status()
  const roots = {
    ...(oldRoot && { from: describeRoot(oldRoot) }),
    ...(newRoot && { to: describeRoot(newRoot) }),
  }
  if (!roll || !facts || roll.stage === 'cancelled')
    return { stage: 'none', ...(oldRoot && { from: describeRoot(oldRoot) }) }
  const { names, until, ...counts } = facts.inForce
  const next = nextStep(roll, until)
  return {
    stage: roll.stage,
    ...roots,
    begunAt: toTime(roll.begunAt),
    ...(roll.usedAt !== null && { usedAt: toTime(roll.usedAt) }),
    inForce: { ...counts, names: [...names], ...(until !== null && { until: toTime(until) }) },
    lacking: [...facts.lacking],
    ...(facts.lostRoot && { lostRoot: describeRoot(facts.lostRoot) }),
    fetchedFrom: [...facts.fetchedFrom],
    ...(next && { next: { ...next, from: toTime(next.from) } }),
  }
}

function describeRoot({ info }: Authority) {
  const { subject, fingerprint256, skid = '', notAfter } = info
  return {
    subject: subject.replaceAll('\n', ', '),
    ...{ fingerprint256, keyId: skid, notAfter: toTime(notAfter) },
  }
}
