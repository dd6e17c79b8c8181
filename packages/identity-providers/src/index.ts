export { PROVIDER_ERRORS, ProviderError } from './errors.ts'
export { PROVIDER_ICONS } from './icons.ts'
export {
  createProvider,
  kindOf,
  type ProviderConfig,
  ProviderSchema,
  profileOf,
} from './kinds.ts'
export type {
  LoginSecrets,
  Provider,
  ProviderDeps,
  RedirectProvider,
  SeamlessProvider,
  SignedIn,
} from './provider.ts'
export { PROVIDER_RULES } from './rules.ts'
