export { rootOf } from './chain.ts'
export type { ProbeFailure } from './errors.ts'
export { PROTOCOLS, type ProbePort, type Protocol, parsePort } from './ports.ts'
export {
  type Probe,
  type ProbeOptions,
  type ProbeTarget,
  probe,
} from './probe.ts'
