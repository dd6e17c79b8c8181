export type { Clock } from './clock.ts'
export {
  createDnsProvider,
  createDnsProviders,
  DNS_PROVIDER_RULES,
  type DnsProviderConfig,
  DnsProviderSchema,
} from './dns/providers/index.ts'
export type {
  ChooseDnsProvider,
  DnsProvider,
  DnsProviderDeps,
  DnsRecord,
} from './dns/providers/provider.ts'
export {
  ACME_ERRORS,
  AcmeError,
  type AcmeErrorCode,
  type Problem,
  type Subproblem,
} from './errors.ts'
export type { Identifier } from './identifier.ts'
export { takeAway } from './order/authorize.ts'
export type { OrderIo } from './order/io.ts'
export { createPatience, type Patience } from './order/patience.ts'
export {
  afterFault,
  createOrder,
  type Failure,
  isOver,
  type OrderOptions,
  type OrderState,
} from './order/state.ts'
export { step } from './order/step.ts'
export {
  type Account,
  type AccountRequest,
  changeKey,
  deactivateAccount,
  newAccount,
  updateAccount,
} from './protocol/account.ts'
export type { Answer } from './protocol/answer.ts'
export type { Call, Resource } from './protocol/call.ts'
export type { Directory } from './protocol/directory.ts'
export type { ExternalAccount, Signer } from './protocol/jws.ts'
export { type Outcome, outcomeOf } from './protocol/outcome.ts'
export {
  fetchRenewalInfo,
  pickMoment,
  type RenewalInfo,
  renewalId,
} from './protocol/renewal-info.ts'
export { revokeCertificate } from './protocol/revocation.ts'
export { createTransport, type Transport, type TransportOptions } from './protocol/transport.ts'
export { type ChallengeStore, createMemoryStore } from './solvers/challenge-store.ts'
export {
  createDns01,
  type Dns01Options,
  type Propagation,
  PropagationSchema,
} from './solvers/dns-01.ts'
export { answerHttp01, createHttp01, createHttp01Server } from './solvers/http-01.ts'
export type { ChallengeTask, Checked, Solver } from './solvers/solver.ts'
export {
  ACME_TLS,
  answerTlsAlpn01,
  createTlsAlpn01,
  createTlsAlpn01Server,
} from './solvers/tls-alpn-01.ts'
