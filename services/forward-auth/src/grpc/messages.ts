/**
 * The parts of Envoy's `ext_authz` v3 and of gRPC's health checks that Gatehouse reads or writes.
 * Names and numbers of fields are those of envoy/service/auth/v3/external_auth.proto and
 * attribute_context.proto, envoy/config/core/v3/base.proto and address.proto
 * (github.com/envoyproxy/envoy, Apache-2.0), google/rpc/status.proto and grpc/health/v1/health.proto.
 */

interface HeaderValueOption {
  readonly header: { readonly key: string; readonly value: string }
  /** Of the enum HeaderAppendAction. */
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
        /** By name in lower case, pseudo-headers among them. Envoy joins equal names with commas. */
        readonly headers: Readonly<Record<string, string>>
        /** With the query, and not normalised. */
        readonly path: string
        readonly host: string
        readonly scheme: string
      } | null
    } | null
    /** What the configuration of the filter adds. */
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

// Of google/rpc/code.proto.
export const OK = 0
export const PERMISSION_DENIED = 7

/** The status of grpc.health.v1.HealthCheckResponse. */
export const SERVING = 1
export const NOT_SERVING = 2

type Fields = Readonly<Record<string, readonly [type: string, id: number, rule?: 'repeated']>>

const message = (fields: Fields) => ({
  fields: Object.fromEntries(
    Object.entries(fields).map(([name, [type, id, rule]]) => [
      name,
      type === 'map'
        ? { keyType: 'string', type: 'string', id }
        : { type, id, ...(rule && { rule }) },
    ]),
  ),
})

const service = (method: string, requestType: string, responseType: string) => ({
  methods: { [method]: { requestType, responseType } },
})

const inPackage = (name: string, nested: object): object =>
  name
    .split('.')
    .reduceRight((inner, part) => ({ nested: { [part]: inner } }), { nested } as object)

export const EXT_AUTHZ = inPackage('envoy.service.auth.v3', {
  Authorization: service('Check', 'CheckRequest', 'CheckResponse'),
  CheckRequest: message({ attributes: ['AttributeContext', 1] }),
  AttributeContext: message({
    source: ['Peer', 1],
    request: ['Request', 4],
    contextExtensions: ['map', 10],
  }),
  Peer: message({ address: ['Address', 1] }),
  Address: message({ socketAddress: ['SocketAddress', 1] }),
  SocketAddress: message({ address: ['string', 2] }),
  Request: message({ http: ['HttpRequest', 2] }),
  HttpRequest: message({
    method: ['string', 2],
    headers: ['map', 3],
    path: ['string', 4],
    host: ['string', 5],
    scheme: ['string', 6],
  }),
  CheckResponse: message({
    status: ['Status', 1],
    deniedResponse: ['DeniedHttpResponse', 2],
    okResponse: ['OkHttpResponse', 3],
  }),
  Status: message({ code: ['int32', 1] }),
  DeniedHttpResponse: message({
    status: ['HttpStatus', 1],
    headers: ['HeaderValueOption', 2, 'repeated'],
    body: ['string', 3],
  }),
  HttpStatus: message({ code: ['int32', 1] }),
  OkHttpResponse: message({
    headers: ['HeaderValueOption', 2, 'repeated'],
    headersToRemove: ['string', 5, 'repeated'],
  }),
  HeaderValueOption: message({ header: ['HeaderValue', 1], appendAction: ['int32', 3] }),
  HeaderValue: message({ key: ['string', 1], value: ['string', 2] }),
})

export const HEALTH = inPackage('grpc.health.v1', {
  Health: service('Check', 'HealthCheckRequest', 'HealthCheckResponse'),
  HealthCheckRequest: message({}),
  HealthCheckResponse: message({ status: ['int32', 1] }),
})
