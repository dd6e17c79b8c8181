import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { call, endpointUrl } from './api.ts'
import { commonOptions, type DnsProvider, type DnsProviderDeps, Secret, Text } from './provider.ts'

export const AcmeDnsSchema = Type.Object({
  type: Type.Literal('acme-dns'),
  ...commonOptions,
  endpoint: Text('URL of the API of the acme-dns server.'),
  accounts: Type.Array(
    Type.Object({
      subdomain: Text('Subdomain of the account: the first label that a CNAME points to.'),
      username: Text('User name of the account.'),
      password: Secret('Password of the account.'),
    }),
    { minItems: 1, description: 'Accounts registered at the server, one per CNAME.' },
  ),
})

/**
 * acme-dns. The target of the `_acme-challenge` CNAME tells which account to use. The server keeps
 * the last two values of an account, so there is nothing to clean up.
 */
export function createAcmeDns(
  { endpoint, accounts }: Static<typeof AcmeDnsSchema>,
  { fetch }: DnsProviderDeps,
): DnsProvider {
  return {
    async present({ name, value, domain }, signal) {
      const account = accounts.find(({ subdomain }) => name.split('.')[0] === subdomain)
      if (!account)
        throw new AcmeError(
          'ACME_DNS_NO_ZONE',
          `_acme-challenge.${domain} leads to ${name}, which is no configured acme-dns account`,
        )
      const { subdomain, username, password } = account
      await call(fetch, {
        api: 'acme-dns',
        url: endpointUrl(endpoint, '/update'),
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-user': username,
          'x-api-key': password,
        },
        body: JSON.stringify({ subdomain, txt: value }),
        signal,
      })
    },
    cleanUp: async () => {},
  }
}
