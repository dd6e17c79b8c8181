import { readFile } from 'node:fs/promises'
import type { BoundedFetch } from '@gatehouse/net'
import { type ClientAuth, ClientSecretBasic, ClientSecretPost } from 'openid-client'
import { Type } from 'typebox'
import { Check } from 'typebox/schema'
import { FwaError } from '../errors.ts'
import { parseJson } from './ask.ts'
import type { ClientAssertion } from './options.ts'

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
/** The instance metadata service of Azure: link-local, without TLS by design. */
const AZURE_IDENTITY = 'http://169.254.169.254/metadata/identity/oauth2/token'
const AzureTokenSchema = Type.Object({ access_token: Type.String({ minLength: 1 }) })

/** With a secret, in the way that the server supports; without a list that is the first one. */
export function secretAuthentication(
  secret: string | undefined,
  supported: readonly string[] = ['client_secret_basic'],
): ClientAuth {
  return supported.includes('client_secret_basic')
    ? ClientSecretBasic(secret)
    : ClientSecretPost(secret)
}

/** RFC 7523 section 2.2, with a token that the platform makes and renews. */
export function assertionAuthentication(
  assertion: ClientAssertion,
  fetch: BoundedFetch,
): ClientAuth {
  return async (_server, { client_id: clientId }, body) => {
    const token = await readAssertion(assertion, fetch)
    body.set('client_id', clientId)
    body.set('client_assertion_type', ASSERTION_TYPE)
    body.set('client_assertion', token)
  }
}

async function readAssertion(assertion: ClientAssertion, fetch: BoundedFetch): Promise<string> {
  try {
    if (assertion.type === 'azureManagedIdentity') return await askAzure(assertion, fetch)
    const token = (await readFile(assertion.file, 'utf8')).trim()
    if (token === '') throw new Error(`${assertion.file} is empty`)
    return token
  } catch (cause) {
    throw new FwaError(
      'FWA_CLIENT_ASSERTION',
      'the token that proves who we are is not to be had',
      {
        cause,
      },
    )
  }
}

async function askAzure(
  { clientId }: { readonly clientId?: string },
  fetch: BoundedFetch,
): Promise<string> {
  const url = new URL(AZURE_IDENTITY)
  url.searchParams.set('api-version', '2018-02-01')
  url.searchParams.set('resource', 'api://AzureADTokenExchange')
  if (clientId !== undefined) url.searchParams.set('client_id', clientId)
  const { body } = await fetch(url, { headers: { metadata: 'true' }, contentTypes: ['json'] })
  const answer = parseJson(body)
  if (!Check(AzureTokenSchema, answer)) throw new Error('Azure gave no token')
  return answer.access_token
}
