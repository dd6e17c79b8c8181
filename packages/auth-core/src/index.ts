export type { Method, RawRequest } from './authorization.ts'
export type { Caller, KeyCaller, TokenCaller } from './caller.ts'
export type { Callers } from './callers.ts'
export { AUTH_ERRORS, AuthError, type AuthErrorCode } from './errors.ts'
export { isRocaKey } from './jwt/roca.ts'
export { localSource, remoteSource, type TokenSource } from './jwt/sources.ts'
export { createVerifier, type Verify } from './jwt/verify.ts'
export {
  type AuthDeps,
  createRemoteKeys,
  type Log,
  type RemoteKeys,
  type RemoteKeysOptions,
} from './oidc/remote-keys.ts'
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
