export { Authenticator, type Callers } from './authenticator.ts'
export type { Caller, KeyCaller, Method, TokenCaller } from './caller.ts'
export { type ChallengeOptions, challengesOf } from './challenges.ts'
export type { CallerDemand, PersonDemand } from './demands.ts'
export { AUTH_ERRORS, AuthError, type AuthErrorCode } from './errors.ts'
export type { GuardedReply, GuardedRequest, RouteGuard } from './guard.ts'
export type { AuthDeps, Log } from './oidc/issuer-keys.ts'
export { isRocaKey } from './oidc/keys.ts'
export {
  type AssertionOptions,
  AUTH_OPTIONS_RULES,
  type AuthOptions,
  AuthOptionsSchema,
  type BearerOptions,
  type IssuerOptions,
  type KeyOptions,
  type NamedKeyOptions,
  type TokenOptions,
} from './options.ts'
export { type AuthPluginOptions, default } from './plugin.ts'
export { isPublicIssuer } from './public-issuers.ts'
export { type AuthOptionsFault, checkAuthOptions } from './settings.ts'
