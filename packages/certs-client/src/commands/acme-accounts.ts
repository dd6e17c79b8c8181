import { resolve } from 'node:path'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import { ask, type CommandOptions, type Io, listing, shortTime } from './certificates.ts'
import { labelled } from './table.ts'

const ROOT = '/etc/gatehouse/root.pem'
// A key may begin with a hyphen, so options have `=`. YAML would read some key IDs as numbers.
const SETUP = `
certbot:
  REQUESTS_CA_BUNDLE=ROOT certbot certonly --standalone -d app.example.com --server DIRECTORY \\
    --eab-kid=KID --eab-hmac-key=KEY --agree-tos --register-unsafely-without-email

lego, in every command:
  LEGO_CA_CERTIFICATES=ROOT lego --server DIRECTORY --eab --kid=KID --hmac=KEY \\
    --accept-tos --email ops@example.com --http --domains app.example.com run

Caddy, in the global options:
  acme_ca DIRECTORY
  acme_ca_root ROOT
  acme_eab {
    key_id KID
    mac_key KEY
  }

Traefik, in a certificate resolver:
  acme:
    caServer: DIRECTORY
    caCertificates: [ROOT]
    eab: { kid: "KID", hmacEncoded: "KEY" }
    storage: /var/lib/traefik/acme.json
    tlsChallenge: {}
`

/** Prints the key by which a client of ACME makes an account. @throws UsageError, ClientError */
export function acmeAccount(caller: string, options: CommandOptions, io: Io): Promise<string> {
  const { renew, keep } = options
  if (keep && !renew) throw new UsageError('--keep needs --renew, which ends the other accounts')
  const body = { ...(caller && { caller }), ...(renew && { renew }), ...(keep && { keep }) }
  return ask(options, io, async (service) => {
    const value = await service.acmeKey(body)
    const { kid, hmacKey: key, directory } = value
    const root = resolve(options.ca ?? (io.env.GATEHOUSE_CA || ROOT))
    const words: Record<string, string> = { ROOT: root, DIRECTORY: directory, KID: kid, KEY: key }
    const setup = SETUP.replace(/\b[A-Z]{3,}\b/g, (word) => words[word] ?? word)
    return { value, text: labelled({ kid, key, directory }) + setup }
  })
}

/** Lists the accounts of clients of ACME, ends one, or takes some over. @throws UsageError, ClientError */
export function acmeAccounts(_: string, options: CommandOptions, io: Io): Promise<string> {
  const { end: id, adopt: caller, only: ids } = options
  if (ids && caller === undefined) throw new UsageError('--only needs --adopt CALLER')
  if (id !== undefined && caller !== undefined)
    throw new UsageError('--end and --adopt exclude each other: run the command twice')
  return ask(options, io, async (service) => {
    if (caller !== undefined) {
      const value = await service.adoptAcmeAccounts({ caller, ...(ids && { ids }) })
      return { value, text: `accounts of ${printable(caller)} taken over: ${value.adopted}\n` }
    }
    if (id === undefined)
      return listing(service.acmeAccounts(), 'There is no account that you may see.\n', {
        ID: (account) => account.id,
        CALLER: ({ caller }) => caller,
        STATUS: ({ status }) => status,
        CLIENT: ({ client }) => client ?? '',
        CREATED: ({ createdAt }) => shortTime(createdAt),
        'LAST USED': ({ usedAt }) => shortTime(usedAt ?? ''),
        FROM: ({ remoteAddress }) => remoteAddress ?? '',
        THUMBPRINT: ({ thumbprint }) => thumbprint,
      })
    await service.endAcmeAccount(id)
    return { value: { id }, text: `the account ${id} is ended\n` }
  })
}
