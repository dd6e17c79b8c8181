import { Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { createApi, json } from './api.ts'
import { type CreateDnsProvider, defineOptions, Option } from './provider.ts'

export const AcmeDnsSchema = defineOptions('acme-dns', {
  endpoint: Option.Text('URL of the API of the acme-dns server.'),
  accounts: Type.Array(
    Type.Object({
      subdomain: Option.Text('Subdomain of the account: the first label that a CNAME points to.'),
      username: Option.Text('User name of the account.'),
      password: Option.Secret('Password of the account.'),
    }),
    { minItems: 1, description: 'Accounts registered at the server, one per CNAME.' },
  ),
})

/**
 * acme-dns. The target of the `_acme-challenge` CNAME tells which account to use. The server keeps
 * the last two values of an account, so there is nothing to clean up.
 */
export const createAcmeDns: CreateDnsProvider<typeof AcmeDnsSchema> = (
  { endpoint, accounts },
  { fetch },
) => {
  const api = createApi({ name: 'acme-dns', endpoint, fetch })
  return {
    async present({ name, value, domain }, signal) {
      const account = accounts.find(({ subdomain }) => name.split('.')[0] === subdomain)
      if (!account)
        throw new AcmeError(
          'ACME_DNS_NO_ZONE',
          `_acme-challenge.${domain} leads to ${name}, which is no configured acme-dns account`,
        )
      const { subdomain, username, password } = account
      const headers = { 'x-api-user': username, 'x-api-key': password }
      await api.send('/update', { headers, content: json({ subdomain, txt: value }), signal })
    },
    cleanUp: async () => {},
  }
}
