import { resolve } from 'node:path'
import {
  labelled,
  listing,
  printable,
  type TableColumns,
  UsageError,
} from '@gatehouse/service-kit/program'
import type { AcmeAccountAnswer } from '../service.ts'
import { type ClientCommand, forEach, open } from './ask.ts'

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

/** Prints the key by which a client of ACME makes an account. */
export const acmeAccount = forEach(async (caller, service, options, io) => {
  const { renew, keep } = options
  if (keep && !renew) throw new UsageError('--keep needs --renew, which ends the other accounts')
  const body = { ...(caller && { caller }), ...(renew && { renew }), ...(keep && { keep }) }
  const value = await service.acmeKey(body)
  const { kid, hmacKey: key, directory } = value
  const root = resolve(options.ca ?? (io.env.GATEHOUSE_CA || ROOT))
  const words: Record<string, string> = { ROOT: root, DIRECTORY: directory, KID: kid, KEY: key }
  const setup = SETUP.replace(/\b[A-Z]{3,}\b/g, (word) => words[word] ?? word)
  return { value, text: labelled({ kid, key, directory }) + setup }
})

/** Lists the accounts of clients of ACME, ends some, or takes some over. */
export const acmeAccounts: ClientCommand = async function* (_, options, io) {
  const { end, adopt: caller, account: ids } = options
  if (end && (!ids || caller !== undefined))
    throw new UsageError('--end needs --account ID, and does not go with --adopt')
  if (caller !== undefined) return yield* adoptAccounts([caller], options, io)
  if (ids && end) return yield* endAccounts(ids, options, io)
  await using service = open(options, io)
  const accounts = await Array.fromAsync(service.acmeAccounts())
  const shown = accounts.filter(({ id }) => !ids || ids.includes(id)).toReversed()
  yield* listing(shown, COLUMNS, options)
}

const COLUMNS: TableColumns<AcmeAccountAnswer> = {
  ID: ({ id }) => id,
  CALLER: ({ caller }) => caller,
  STATUS: ({ status }) => status,
  CLIENT: ({ client }) => client,
  CREATED: ({ createdAt }) => createdAt,
  'LAST USED': ({ usedAt }) => usedAt,
  FROM: ({ remoteAddress }) => remoteAddress,
  THUMBPRINT: ({ thumbprint }) => thumbprint,
}

const endAccounts = forEach(async (id, service) => {
  await service.endAcmeAccount(id)
  return { value: { id }, text: `the account ${id} is ended\n` }
})

const adoptAccounts = forEach(async (caller, service, { account: ids }) => {
  const value = await service.adoptAcmeAccounts({ caller, ...(ids && { ids }) })
  return { value, text: `accounts of ${printable(caller)} taken over: ${value.adopted}\n` }
})
