import { parseEndpointUrl, requireCertificates } from '@gatehouse/net'
import { type ConfigRule, type Fault, faultIf, faultOf } from '@gatehouse/service-kit/rules'
import type { ProviderConfig } from './kinds.ts'
import { PRESETS, type Preset } from './presets/index.ts'

interface Checked extends Pick<ProviderConfig, 'name'> {
  readonly issuerUrl?: string
  readonly url?: string
  readonly authority?: string
  readonly ca?: string
  readonly authorizationParameters?: Readonly<Record<string, string>>
}

/** The state of a login needs the rest of a URL of 4,096 characters. */
const MAX_PARAMETERS = 500

/** Rules for the options of a provider that their schema does not express. */
export const PROVIDER_RULES: readonly ConfigRule<ProviderConfig>[] = [
  ({ issuerUrl }: Checked) => checkUrl('/issuerUrl', issuerUrl),
  ({ url }: Checked) => checkUrl('/url', url),
  ({ authority }: Checked) => checkUrl('/authority', authority),
  (options) => {
    const preset: Preset | undefined = PRESETS.find(({ type }) => type === options.type)
    return preset?.check?.(options) ?? []
  },
  ({ ca }: Checked) => (ca === undefined ? [] : faultOf('/ca', () => requireCertificates(ca))),
  ({ authorizationParameters = {} }: Checked) => checkParameters(authorizationParameters),
]

function checkParameters(parameters: Readonly<Record<string, string>>): Fault[] {
  const { length } = String(new URLSearchParams(parameters))
  const message = `has ${length} characters in a URL, more than ${MAX_PARAMETERS}`
  return faultIf(length > MAX_PARAMETERS, '/authorizationParameters', message)
}

function checkUrl(path: string, url: string | undefined): Fault[] {
  if (url === undefined) return []
  return faultOf(path, () => {
    if (parseEndpointUrl(url).search !== '') throw new Error('must not have a query')
    if (/\/\.well-known(\/|$)/.test(url)) throw new Error('must end before /.well-known')
  })
}
