import { attempt, isUnder, parseEndpointUrl, parseHostPort } from '@gatehouse/net'
import { FilePath, optional, Text } from '@gatehouse/service-kit/config'
import {
  applyToEach,
  checkUnique,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
} from '@gatehouse/service-kit/rules'
import { type Static, Type } from 'typebox'
import type { Site } from '../sites.ts'
import { checkImage } from './look.ts'

const MAX_APPS = 500

export const AppsSchema = Type.Array(
  Type.Object({
    name: Text('Name of the app.', { maxLength: 60 }),
    url: Text('Its address: `https://` and a host on one of the `domains`.'),
    ...optional({
      policy: Text('The policy that the proxy names for this app, if it names one in its checks.'),
      icon: FilePath(
        'Image beside its name: PNG, SVG, WebP or JPEG of at most 64 KiB. Default: the first letter of the name.',
      ),
    }),
  }),
  {
    maxItems: MAX_APPS,
    description:
      'Names and icons of apps on the page after signing in, and apps that are only here. Each person sees the apps that ' +
      'they may open, also the other hosts that `rules` name, without wildcards.',
  },
)

export const AppsFromSchema = Text(
  'URL of `docker-reader`, such as `http://docker-reader:2375`: the apps that labels of containers name are on the page too.',
)

interface AppsPortal {
  readonly apps?: Static<typeof AppsSchema>
  readonly appsFrom?: string
  readonly policies: Readonly<Record<string, unknown>>
}

/** The faults of `apps`: each must be where a check of the portal can let people pass. */
export function checkApps(
  { apps = [], appsFrom, policies }: AppsPortal,
  sites: readonly Site[],
): Fault[] {
  const policyNames = ifKnown(() => Object.keys(policies)) ?? []
  return [
    ...(appsFrom === undefined
      ? []
      : faultOf('/appsFrom', () => parseEndpointUrl(appsFrom, { allowHttp: true }))),
    ...checkUnique('/apps', apps),
    ...applyToEach(apps, '/apps', [
      ({ url }) => checkUrl(url, sites),
      checkImage('icon'),
      ({ policy = 'any' }) =>
        faultIf(![...policyNames, 'any'].includes(policy), '/policy', `is no policy: ${policy}`),
    ]),
  ]
}

function checkUrl(text: string, sites: readonly Site[]): Fault[] {
  const fault = (message: string) => [{ path: '/url', message }]
  const url = attempt(() => parseEndpointUrl(text))
  if (!url)
    return fault(
      'is not an https URL without user name and fragment, such as https://app.example.com/',
    )
  const host = parseHostPort(url.host)?.host
  const site = host && sites.find(({ domain }) => isUnder(domain, host))
  if (!site)
    return fault(`is on none of the domains: ${sites.map(({ domain }) => domain).join(', ')}`)
  const isForPages = host.name !== site.domain && new URL(site.authOrigin).hostname === url.hostname
  return isForPages ? fault('is at the host of the sign-in pages, where no app can be') : []
}
