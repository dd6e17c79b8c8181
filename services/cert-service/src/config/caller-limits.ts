import { type Static, Type } from 'typebox'

const Count = (fallback: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: fallback, description })

const callerLimits = {
  names: Count(
    1_000,
    1_000_000,
    'Names of the certificates that it asked for and that have not ended, all together.',
  ),
  issuancesPerMinute: Count(60, 100_000, 'New certificates a minute; those held cost nothing.'),
  burst: Count(120, 100_000, 'How many of them may come at once.'),
}

/** What callers may cost. */
export const CallerLimitsSchema = Type.Object({
  perName: Type.Object({
    certificates: Count(
      8,
      100,
      'Certificates live under one first name. Beyond that the oldest for a CSR is no longer answered nor renewed.',
    ),
  }),
  perCaller: Type.Object(callerLimits, {
    description: 'For each key with `domains` and each subject of tokens.',
  }),
  perOperator: Type.Optional(
    Type.Object(callerLimits, {
      description: 'The same for each key without `domains`. Left out: no limit.',
    }),
  ),
})

export type CallerLimits = Static<typeof CallerLimitsSchema>
