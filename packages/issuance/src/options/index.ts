export { CaSchema } from './ca.ts'
export { type CallerLimits, CallerLimitsSchema } from './callers.ts'
export {
  checkIssuer,
  checkKeyType,
  isOfClients,
  issuerFor,
  nameRulesOf,
  provableName,
} from './check-issuers.ts'
export { type ClaimOf, loadClaims } from './claims.ts'
export { type IssuerConfig, IssuerSchema } from './issuers.ts'
