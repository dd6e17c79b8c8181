import { type Static, Type } from 'typebox'

const Count = (fallback: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: fallback, description })

const callerLimits = {
  names: Count(5_000, 1_000_000, 'Names in all unexpired certificates that the caller requested.'),
  issuancesPerMinute: Count(
    60,
    100_000,
    'New certificates per minute. Delivering stored ones is not limited.',
  ),
  burst: Count(120, 100_000, 'New certificates at once.'),
}

/** The limits of callers. */
export const CallerLimitsSchema = Type.Object({
  perName: Type.Object({
    certificates: Count(
      500,
      2_000,
      'Certificates in use with the same first name, such as one for each machine of a fleet. Beyond that, another one is refused.',
    ),
  }),
  perCaller: Type.Object(callerLimits, {
    description: 'For each key with `domains` and each token subject.',
  }),
  perOperator: Type.Optional(
    Type.Object(callerLimits, {
      description: 'For each key without `domains`. Default: no limit.',
    }),
  ),
})

export type CallerLimits = Static<typeof CallerLimitsSchema>
