export { type SessionToken, toJson, toText, verifyResult } from './answers.ts'
export { fromClaims, isUnknown, withUnknown } from './claims.ts'
export {
  ANY_ARGUMENTS,
  type Condition,
  type ConditionCaller,
  compileAllow,
  compileCondition,
  type McpCall,
  type Subject,
} from './conditions.ts'
export { PROFILE_ERRORS, ProfileError, type ProfileErrorCode } from './errors.ts'
export {
  type Allow,
  AllowSchema,
  type Claims,
  type Profile,
  type ProfileJson,
  ProfileJsonSchema,
  type StepUp,
  type VerifyResult,
  VerifyResultSchema,
} from './schema.ts'
