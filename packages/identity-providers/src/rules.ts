import { X509Certificate } from 'node:crypto'
import { attempt, parseEndpointUrl } from '@gatehouse/net'
import { type ConfigRule, type Fault, faultIf, faultOf } from '@gatehouse/service-kit/rules'
import type { ProviderConfig } from './kinds.ts'
import { PRESETS, type Preset } from './presets/index.ts'

interface Checked extends Pick<ProviderConfig, 'name'> {
  readonly issuerUrl?: string
  readonly url?: string
  readonly authority?: string
  readonly clientId?: string
  readonly clientSecret?: string
  readonly clientAssertion?: object
  readonly ca?: string
  readonly authorizationParameters?: Readonly<Record<string, string>>
}

/** Parameters of the authorization request that Gatehouse sets itself, and what to set instead. */
const OWN_PARAMETERS: Readonly<Record<string, string>> = {
  client_id: 'set `clientId`',
  code_challenge: '',
  code_challenge_method: '',
  max_age: 'give a policy `maxAge`',
  nonce: '',
  redirect_uri: '',
  request: '',
  request_uri: '',
  response_mode: '',
  response_type: '',
  scope: 'set `scopes`',
  state: '',
}
/** The state of a login needs the rest of a URL of 4,096 characters. */
const MAX_PARAMETERS = 500

/** Rules for the options of a provider that their schema does not express. */
export const PROVIDER_RULES: readonly ConfigRule<ProviderConfig>[] = [
  ({ issuerUrl }: Checked) => checkUrl('/issuerUrl', issuerUrl),
  ({ url }: Checked) => checkUrl('/url', url),
  ({ authority }: Checked) => checkUrl('/authority', authority),
  ({ clientSecret, clientAssertion }: Checked) =>
    faultIf(
      clientSecret !== undefined && clientAssertion !== undefined,
      '/clientAssertion',
      'is given together with clientSecret',
    ),
  ({ clientId, clientSecret, clientAssertion }: Checked) =>
    faultIf(
      clientId !== undefined && clientSecret === undefined && clientAssertion === undefined,
      '/clientId',
      'needs a clientSecret or a clientAssertion',
    ),
  (options) => {
    const preset: Preset | undefined = PRESETS.find(({ type }) => type === options.type)
    return preset?.check?.(options) ?? []
  },
  ({ ca }: Checked) => {
    const isOther = ca !== undefined && !attempt(() => new X509Certificate(ca))
    return faultIf(isOther, '/ca', 'must be certificates in PEM')
  },
  ({ authorizationParameters = {} }: Checked) => checkParameters(authorizationParameters),
]

function checkParameters(parameters: Readonly<Record<string, string>>): Fault[] {
  const path = '/authorizationParameters'
  const { length } = String(new URLSearchParams(parameters))
  return [
    ...Object.keys(parameters)
      .filter((name) => Object.hasOwn(OWN_PARAMETERS, name))
      .map((name) => {
        const instead = OWN_PARAMETERS[name] ? `: ${OWN_PARAMETERS[name]} instead` : ''
        return { path: `${path}/${name}`, message: `is set by Gatehouse itself${instead}` }
      }),
    ...faultIf(
      length > MAX_PARAMETERS,
      path,
      `has ${length} characters in a URL, more than ${MAX_PARAMETERS}`,
    ),
  ]
}

function checkUrl(path: string, url: string | undefined): Fault[] {
  if (url === undefined) return []
  return faultOf(path, () => {
    if (parseEndpointUrl(url).search !== '') throw new Error('must not have a query')
    if (/\/\.well-known(\/|$)/.test(url)) throw new Error('must end before /.well-known')
  })
}
