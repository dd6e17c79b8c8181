export { type Clock, clock, systemClock } from './clock.ts'
export { describeFailure, renderCommands, UsageError } from './command-line.ts'
export {
  checkCertificateFile,
  checkFolder,
  checkText,
  checkTlsFiles,
  checkTokenFile,
  readNamedBytes,
  readNamedFile,
  requireNamedFile,
} from './config/files.ts'
export { type Loaded, type LoadSettings, loadConfig } from './config/load.ts'
export { renderReference } from './config/reference.ts'
export {
  applyRules,
  applyToEach,
  checkListeners,
  checkTrustedProxies,
  checkUnique,
  type Fault,
  faultOf,
  isWhole,
  known,
  type Listener,
  type Rule,
} from './config/rules.ts'
export {
  Duration,
  durationOf,
  FilePath,
  LogSchema,
  listener,
  MetricsSchema,
  Secret,
  Text,
  WorkersSchema,
} from './config/schema.ts'
export {
  CONFIG_ERRORS,
  ConfigError,
  type ConfigFault,
  FASTIFY_ERRORS,
  HTTP_ERRORS,
} from './errors.ts'
export { makeFolder, watchFiles } from './files.ts'
export { healthcheck, localHost } from './healthcheck.ts'
export { hasTag } from './http/conditional.ts'
export { type HealthReport, health, type Readiness } from './http/health.ts'
export { isNavigation } from './http/navigation.ts'
export { openapi } from './http/openapi.ts'
export {
  errorReference,
  GATE,
  type Page,
  type PageContent,
  type PageStyle,
  pageOf,
  pagesIn,
  prose,
  sendPage,
  styleOf,
} from './http/page.ts'
export { type Problem, ProblemSchema, problems, statusOfError } from './http/problem.ts'
export {
  appOptions,
  createTrust,
  forwardedAddresses,
  hasTwoHosts,
  type Peer,
  strictHttp,
  type Trust,
  trustProxy,
} from './http/server.ts'
export { createEmpty, lockFile } from './lock.ts'
export { isOfSystem, statePrefix, writeNewFiles } from './new-files.ts'
export {
  type CommandCall,
  programSyntax,
  runService,
  type ServiceCommand,
  type ServiceProgram,
} from './program.ts'
export { reload } from './reload.ts'
export { draining, limitConnections, listenError, type Running, runApp } from './run-app.ts'
export { type BuildDeps, type ServeOptions, startService } from './start.ts'
export { suggest } from './suggest.ts'
export { createLogger, type Logger, type LogOptions, requestTelemetry } from './telemetry/log.ts'
export { createMetrics, type Metrics } from './telemetry/metrics.ts'
export type { OpenTelemetry } from './telemetry/open-telemetry.ts'
export { printable } from './terminal.ts'
export {
  applyTls,
  type SelfIssued,
  serverTlsOptions,
  type TlsCredentials,
  type TlsSource,
  tlsFromFiles,
  tlsSelfRenewed,
} from './tls.ts'
export { type Workers, workers } from './workers/worker.ts'
