export { attempt, parseJson, retryAfterOf } from './answers.ts'
export { requireCertificates } from './certificates.ts'
export { type Clock, orAborted, orLate, sleep, toTime } from './clock.ts'
export { type Condition, Congestion } from './congestion.ts'
export { certificateFault, codeOf, describeConnectionFault } from './connection-faults.ts'
export {
  CodedError,
  hasCode,
  NET_ERRORS,
  NetError,
  type NetErrorCode,
  TitledError,
  type TitledErrorOptions,
} from './errors.ts'
export {
  type BoundedFetch,
  backoffMs,
  createDispatcher,
  createFetch,
  type FetchAnswer,
  type FetchInit,
  type FetchOptions,
  lookupAllowed,
} from './fetch.ts'
export {
  formatHostPort,
  type Host,
  isLoopback,
  isUnder,
  parseHost,
  parseHostPort,
} from './host.ts'
export {
  type Cidr,
  cidrContains,
  compileNetworks,
  embeddedIp,
  type IpAddress,
  isIp,
  isPublicIp,
  LOOPBACK_NETWORKS,
  parseCidr,
  parseIp,
} from './ip.ts'
export { parseAdvertisedUrl, parseEndpointUrl, parseOrigin } from './origin.ts'
export {
  type LookupAll,
  type ProxyAddresses,
  parseProxyName,
  proxyAsker,
  systemLookup,
} from './proxy-names.ts'
export { decodeBase64url, freezeAll, isObject, parseStrictJson } from './strict.ts'
export { createTurns } from './turns.ts'
