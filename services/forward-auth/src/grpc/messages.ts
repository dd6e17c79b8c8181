import { fileURLToPath } from 'node:url'
import { loadSync, type ServiceDefinition } from '@grpc/proto-loader'

interface HeaderValueOption {
  readonly header: { readonly key: string; readonly value: string }
  /** A value of the enum HeaderAppendAction. */
  readonly appendAction: 0 | 2
}
export const APPEND_IF_EXISTS_OR_ADD = 0
export const OVERWRITE_IF_EXISTS_OR_ADD = 2

/** A message as proto-loader decodes it: what was not sent is null, or an empty text or map. */
export interface CheckRequest {
  readonly attributes: {
    readonly source: {
      readonly address: { readonly socketAddress: { readonly address: string } | null } | null
    } | null
    readonly request: {
      readonly http: {
        readonly method: string
        readonly headers: Readonly<Record<string, string>>
        readonly path: string
        readonly host: string
        readonly scheme: string
      } | null
    } | null
    /** Pairs that the configuration of the filter adds. */
    readonly contextExtensions: Readonly<Record<string, string>>
  } | null
}

export interface CheckResponse {
  readonly status: { readonly code: number }
  readonly okResponse?: {
    readonly headers: readonly HeaderValueOption[]
    readonly headersToRemove: readonly string[]
  }
  readonly deniedResponse?: {
    readonly status: { readonly code: number }
    readonly headers: readonly HeaderValueOption[]
    readonly body: string
  }
}

// Codes of google/rpc/code.proto.
export const OK = 0
export const PERMISSION_DENIED = 7

/** The status of grpc.health.v1.HealthCheckResponse. */
export const SERVING = 1
export const NOT_SERVING = 2

export const EXT_AUTHZ = serviceIn('./ext-authz.proto', 'envoy.service.auth.v3.Authorization')

export const HEALTH = serviceIn('./health.proto', 'grpc.health.v1.Health')

function serviceIn(file: string, name: string): ServiceDefinition {
  const path = fileURLToPath(new URL(file, import.meta.url))
  return loadSync(path, { defaults: true })[name] as ServiceDefinition
}
