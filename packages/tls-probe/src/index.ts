export { rootOf } from './chain.ts'
export { PROTOCOLS, type ProbePort, type Protocol, parsePort, serverNameFor } from './ports.ts'
export { type Probe, type ProbeTarget, probe } from './probe.ts'
