// Arguments: issue, renew or revoke, and a name. Its files are in the working directory.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import { createRequire } from 'node:module'

const { DIRECTORY, ROOT, KID, HMAC_KEY, ACME_CLIENT } = process.env
const [, , action, name] = process.argv
// From the folder where it was installed.
const acme = createRequire(`${ACME_CLIENT}/package.json`)('acme-client')
acme.axios.defaults.httpsAgent = new Agent({ ca: readFileSync(ROOT) })

const KEY_FILE = 'account.key'
if (!existsSync(KEY_FILE)) writeFileSync(KEY_FILE, await acme.crypto.createPrivateEcdsaKey())

const client = new acme.Client({
  directoryUrl: DIRECTORY,
  accountKey: readFileSync(KEY_FILE),
  externalAccountBinding: { kid: KID, hmacKey: HMAC_KEY },
})

if (action === 'revoke') {
  await client.createAccount({ termsOfServiceAgreed: true })
  await client.revokeCertificate(readFileSync(`${name}.pem`), { reason: 4 })
} else {
  const [, csr] = await acme.crypto.createCsr({ altNames: [name] })
  const challengeCreateFn = () => Promise.reject(new Error('it asks for a proof'))
  const chain = await client.auto({
    csr,
    email: 'ops@example.com',
    termsOfServiceAgreed: true,
    challengeCreateFn,
    challengeRemoveFn: async () => {},
  })
  writeFileSync(`${name}.pem`, chain)
}
