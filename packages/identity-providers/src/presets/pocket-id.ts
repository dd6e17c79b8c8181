import { Text } from '@gatehouse/service-kit/config'
import { preset, withoutSlash } from './preset.ts'

export const pocketID = preset({
  type: 'pocketID',
  description: 'A Pocket ID instance.',
  title: 'Pocket ID',
  icon: {
    name: 'pocket-id',
    color: '#3f3f46',
    path: 'M4.5 5h15v6.5a7.5 7.5 0 0 1-15 0zM12 9.5v4',
  },
  options: {
    url: Text('URL of the Pocket ID instance.'),
  },
  issuer: ({ url }) => withoutSlash(url),
  scopes: ['openid', 'profile', 'email', 'groups'],
})
