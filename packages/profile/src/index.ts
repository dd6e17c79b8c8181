export { compileAllow } from './allow.ts'
export {
  type Condition,
  type Conditions,
  createConditions,
  soleCondition,
} from './conditions.ts'
export { PROFILE_ERRORS, ProfileError, type ProfileErrorCode } from './errors.ts'
export { fromClaims } from './from-claims.ts'
export { toJson } from './json.ts'
export {
  type Allow,
  AllowSchema,
  type Claims,
  type Profile,
  type ProfileJson,
  ProfileJsonSchema,
  type VerifyResult,
  VerifyResultSchema,
} from './schema.ts'
export { toText } from './text.ts'
export { type SessionToken, verifyResult } from './verify.ts'
