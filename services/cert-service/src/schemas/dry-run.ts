import { Type } from 'typebox'
import { HeldSchema, OrderSchema, TimeSchema } from './certificate.ts'

/** Query of `POST /api/certificate`. */
export const IssueQuerySchema = Type.Object({
  dryRun: Type.Optional(
    Type.Enum(['true', 'false'], {
      description: '`true`: nothing is ordered or handed out, only told what would be.',
    }),
  ),
})

const ProofSchema = Type.Object({
  name: Type.String(),
  challenge: Type.Enum(['dns-01', 'http-01', 'tls-alpn-01']),
  status: Type.Enum(['ready', 'failed', 'unchecked'], {
    description:
      '`ready`: DNS says where the record goes and, where the provider can be asked without a change, it let us in. `unchecked`: only the CA can tell.',
  }),
  detail: Type.String({ description: 'What was seen, in plain words.' }),
  code: Type.Optional(Type.String({ description: 'Stable code of the error.' })),
})

const BudgetSchema = Type.Object({
  limit: Type.Enum(['orders', 'domain', 'names', 'failures', 'failuresInARow', 'accounts']),
  subject: Type.String({ description: 'What it is counted for.' }),
  left: Type.Integer(),
  count: Type.Integer({ description: 'How many there are in all.' }),
  per: Type.String({ description: 'The time in which all of them come back.' }),
  freeAt: Type.Optional(TimeSchema('When there is one again, if none is left.')),
})

/** Answer of `POST /api/certificate?dryRun=true`. */
export const DryRunSchema = Type.Object(
  {
    domain: Type.String(),
    names: Type.Array(Type.String()),
    issuer: Type.String({ description: 'Who would sign it.' }),
    accountUrl: Type.Optional(
      Type.String({
        description:
          'The account at the CA, as `accounturi` of a CAA record names it; absent until it is registered.',
      }),
    ),
    held: Type.Optional(HeldSchema),
    order: Type.Optional(OrderSchema),
    proofs: Type.Array(ProofSchema, {
      description: 'How each name would be proven; empty where the issuer wants no proof.',
    }),
    budgets: Type.Array(BudgetSchema, {
      description: 'What is left of the limits of the CA, as far as they are known.',
    }),
    obstacles: Type.Array(Type.String(), {
      description: 'What stands in the way, in plain words; empty: nothing that is known.',
    }),
  },
  {
    description:
      'What a request would come to. What it would be refused for at once, it is refused for here.',
  },
)
