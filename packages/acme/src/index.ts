export { parseResolver } from './dns/exchange.ts'
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
export { type Identifier, toIdentifier } from './identifier.ts'
export { cleanUpChallenges } from './order/authorize.ts'
export { createRetryBudget, type RetryBudget } from './order/retry.ts'
export {
  afterError,
  createOrder,
  type Failure,
  isOver,
  isPrepared,
  type OrderIo,
  type OrderOptions,
  type OrderState,
  prepareOrder,
} from './order/state.ts'
export { step } from './order/step.ts'
export {
  type AcmeAccount,
  changeKey,
  type NewAccount,
  newAccount,
  updateAccount,
} from './protocol/account.ts'
export { revokeCertificate } from './protocol/certificate.ts'
export { type ExternalAccount, type RequestSigner, signRequest } from './protocol/jws.ts'
export {
  type AcmeAuthorization,
  type AcmeOrder,
  newOrder,
  readAuthorization,
} from './protocol/order.ts'
export { type ErrorOutcome, outcomeOf } from './protocol/problem.ts'
export {
  fetchRenewalInfo,
  pickMoment,
  type RenewalInfo,
  renewalId,
} from './protocol/renewal-info.ts'
export type { AcmeRequest, AcmeResponse, Resource } from './protocol/request.ts'
export {
  createTransport,
  type Directory,
  type Transport,
  type TransportOptions,
} from './protocol/transport.ts'
export {
  createDns01,
  type Dns01Options,
  type Propagation,
  PropagationSchema,
} from './solvers/dns-01.ts'
export { answerHttp01, createHttp01, createHttp01Server } from './solvers/http-01.ts'
export type { ChallengeStore, ChallengeTask, Checked, Solver } from './solvers/solver.ts'
export {
  ACME_TLS,
  createTlsAlpn01,
  createTlsAlpn01Server,
  serverNameOf,
} from './solvers/tls-alpn-01.ts'
