import { compileRules, parseNameRule } from '@gatehouse/pki'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
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

/** One DNS provider in the configuration; `type` says which keys it has. */
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

/** Makes one provider; it asks nothing before it is used. */
export function createDnsProvider(config: DnsProviderConfig, deps: DnsProviderDeps): DnsProvider {
  switch (config.type) {
    case 'cloudflare':
      return createCloudflare(config, deps)
    case 'route53':
      return createRoute53(config, deps)
    case 'azure':
      return createAzure(config, deps)
    case 'google':
      return createGoogle(config, deps)
    case 'rfc2136':
      return createRfc2136(config, deps)
    case 'acme-dns':
      return createAcmeDns(config, deps)
    case 'httpreq':
      return createHttpreq(config, deps)
    case 'exec':
      return createExec(config)
    case 'acmesh':
      return createAcmesh(config)
  }
}

/**
 * Makes the providers, and what chooses among them: the first whose `names` hold the name.
 *
 * @throws PkiError `PKI_RULE_INVALID`
 */
export function createDnsProviders(
  configs: readonly DnsProviderConfig[],
  deps: DnsProviderDeps,
): ChooseDnsProvider {
  const choices = configs.map((config) => ({
    holds: compileRules((config.names ?? ['*']).map(parseNameRule)),
    provider: createDnsProvider(config, deps),
  }))
  return (name) => {
    const choice = choices.find(({ holds }) => holds(name))
    if (choice) return choice.provider
    throw new AcmeError('ACME_DNS_NO_PROVIDER', `no DNS provider is configured for ${name.text}`)
  }
}
