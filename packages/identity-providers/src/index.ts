export { PROVIDER_ERRORS, ProviderError } from './errors.ts'
export {
  createProvider,
  isPublic,
  type ProviderConfig,
  ProviderSchema,
  profileOf,
  stepsUp,
} from './kinds.ts'
export { PROVIDER_ICONS } from './options.ts'
export type {
  LoginSecrets,
  Provider,
  ProviderDeps,
  RedirectProvider,
  SeamlessProvider,
  SignedIn,
} from './provider.ts'
export { PROVIDER_RULES } from './rules.ts'
