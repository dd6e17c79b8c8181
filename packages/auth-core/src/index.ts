export type { Callers } from './authenticator.ts'
export type { Caller, KeyCaller, Method, TokenCaller } from './caller.ts'
export { AUTH_ERRORS, AuthError, type AuthErrorCode } from './errors.ts'
export { isRocaKey } from './jwt/keys.ts'
export type { Log } from './oidc/issuer-keys.ts'
export type {
  AuthOptions,
  BearerOptions,
  IssuerOptions,
  KeyOptions,
  NamedKeyOptions,
  TokenOptions,
} from './options.ts'
export { AuthOptionsSchema } from './options-schema.ts'
export {
  type AuthPluginOptions,
  type CallerDemand,
  type CallerGuard,
  default,
  type GuardedReply,
  type GuardedRequest,
} from './plugin.ts'
export { type AuthOptionsFault, checkAuthOptions } from './settings.ts'
