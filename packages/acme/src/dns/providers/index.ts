import { parseEndpointUrl } from '@gatehouse/net'
import { compileRules, parseNameRule } from '@gatehouse/pki'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { parseServer } from '../exchange.ts'
import { AcmeDnsSchema, createAcmeDns } from './acme-dns.ts'
import { AcmeshSchema, createAcmesh } from './acmesh.ts'
import { AzureSchema, createAzure } from './azure.ts'
import { CloudflareSchema, createCloudflare } from './cloudflare.ts'
import { createExec, ExecSchema } from './exec.ts'
import { createGoogle, GoogleSchema } from './google.ts'
import { createHttpreq, HttpreqSchema } from './httpreq.ts'
import type { ChooseDnsProvider, DnsProvider, DnsProviderDeps } from './provider.ts'
import { createRfc2136, Rfc2136Schema } from './rfc2136.ts'
import { createRoute53, Route53Schema } from './route53.ts'

/** The options of one DNS provider; `type` decides which ones it has. */
export const DnsProviderSchema = Type.Union([
  CloudflareSchema,
  Route53Schema,
  AzureSchema,
  GoogleSchema,
  Rfc2136Schema,
  AcmeDnsSchema,
  HttpreqSchema,
  ExecSchema,
  AcmeshSchema,
])

export type DnsProviderConfig = Static<typeof DnsProviderSchema>

const CREATE = {
  cloudflare: createCloudflare,
  route53: createRoute53,
  azure: createAzure,
  google: createGoogle,
  rfc2136: createRfc2136,
  'acme-dns': createAcmeDns,
  httpreq: createHttpreq,
  exec: createExec,
  acmesh: createAcmesh,
} satisfies Record<DnsProviderConfig['type'], unknown>

/** Creates one provider, which sends nothing before it is used. */
export function createDnsProvider(config: DnsProviderConfig, deps: DnsProviderDeps): DnsProvider {
  return CREATE[config.type](config as never, deps)
}

/**
 * Creates the providers, and chooses for each name the first whose `names` match it.
 * @throws PkiError `PKI_RULE_INVALID`
 */
export function createDnsProviders(
  configs: readonly DnsProviderConfig[],
  deps: DnsProviderDeps,
): ChooseDnsProvider {
  const choices = configs.map((config) => ({
    matches: compileRules((config.names ?? ['*']).map(parseNameRule)),
    provider: createDnsProvider(config, deps),
  }))
  return (name) => {
    const choice = choices.find(({ matches }) => matches(name))
    if (choice) return choice.provider
    throw new AcmeError('ACME_DNS_NO_PROVIDER', `no DNS provider is configured for ${name.text}`)
  }
}

/**
 * The checks of a provider's options that the schema cannot express. Each gives errors with a JSON
 * pointer within the options, and reads only those that it is about, so that the others also work on
 * options that are partly unreadable.
 */
export const DNS_PROVIDER_RULES: readonly ((
  config: DnsProviderConfig,
) => { readonly path: string; readonly message: string }[])[] = [
  ({ names = [] }) =>
    names.flatMap((rule, index) => attempt(`/names/${index}`, () => parseNameRule(rule))),
  (config) => checkEndpoint(config, 'endpoint'),
  (config) => checkEndpoint(config, 'authority'),
  (config) =>
    config.type === 'rfc2136' && !parseServer(config.server)
      ? [{ path: '/server', message: 'must be a host name or IP address, and maybe a port' }]
      : [],
]

/** Metadata endpoints are not checked: they are link-local and use plain http by design. */
function checkEndpoint(config: DnsProviderConfig, key: string) {
  const url = (config as Partial<Record<string, unknown>>)[key]
  return typeof url === 'string' ? attempt(`/${key}`, () => parseEndpointUrl(url)) : []
}

function attempt(path: string, read: () => unknown) {
  try {
    read()
    return []
  } catch (error) {
    return [{ path, message: (error as Error).message }]
  }
}
