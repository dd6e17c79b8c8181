export { FASTIFY_ERRORS, HTTP_ERRORS } from '../errors.ts'
export { hasTag } from './conditional.ts'
export { type HealthReport, health } from './health.ts'
export { isNavigation, isPrefetch, prefersPage } from './navigation.ts'
export { openapi } from './openapi.ts'
export { type Problem, ProblemSchema, problems, statusOfError } from './problem.ts'
export {
  appOptions,
  forwardedAddresses,
  isRepeated,
  type Peer,
  strictHttp,
  type Trust,
} from './server.ts'
export { trust } from './trust.ts'
