/** Every error of this package: its meaning and what to do about it. */
export const PROFILE_ERRORS = {
  PROFILE_ID_INVALID: {
    title: 'No usable user ID',
    action: 'Have the provider send a `sub` of 1 to 255 printable ASCII characters.',
  },
  PROFILE_CLAIMS_INVALID: {
    title: 'Claims are not acceptable',
    action:
      'Have the provider send fewer claims with shorter names. No genuine claims are this large.',
  },
  PROFILE_CLAIM_UNKNOWN: {
    title: 'Claim is not known',
    action:
      'Find out why the provider sends this claim elsewhere, in another form, or far too large.',
  },
  PROFILE_ALLOW_INVALID: {
    title: 'Allow rule is not valid',
    action:
      'Write `anyone`, a condition, or an object with `condition`, `emailDomains` or `groups`.',
  },
  PROFILE_CONDITION_INVALID: {
    title: 'Condition is not valid',
    action:
      'Give one condition of at most 1,024 characters. Correct it at the column that the message names.',
  },
} as const satisfies Record<`PROFILE_${string}`, { title: string; action: string }>

export type ProfileErrorCode = keyof typeof PROFILE_ERRORS

/** An error of this package; `code` is stable, `message` says what was wrong. */
export class ProfileError extends Error {
  override readonly name = 'ProfileError'
  readonly code: ProfileErrorCode
  /** Column in a condition, counted from 1 over the whole text. */
  readonly column: number | undefined

  constructor(
    code: ProfileErrorCode,
    message: string,
    options: ErrorOptions & { column?: number } = {},
  ) {
    super(message, options)
    this.code = code
    this.column = options.column
  }
}
