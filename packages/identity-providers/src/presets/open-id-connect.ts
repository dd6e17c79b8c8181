import { Text } from '@gatehouse/service-kit/config'
import { preset } from './preset.ts'

export const openIDConnect = preset({
  type: 'openIDConnect',
  description: 'Any provider that follows OpenID Connect.',
  icon: {
    name: 'openid',
    color: '#c2570c',
    path: 'M8 12.5a3.75 3.75 0 0 1 0 7.5 3.75 3.75 0 0 1 0-7.5M10.75 13.5 20 4.5M15.5 9l3 3',
  },
  options: {
    issuerUrl: Text('The issuer, exactly as in the claim `iss`, including a trailing slash.'),
  },
  issuer: ({ issuerUrl }) => issuerUrl,
})
