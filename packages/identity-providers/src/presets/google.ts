import { preset } from './preset.ts'

/** Google accounts. The claim `hd` names the organisation of an account; the address does not. */
export const google = preset({
  type: 'google',
  description: 'Google accounts. The issuer is `https://accounts.google.com`.',
  title: 'Google',
  icon: { name: 'google', color: '#1a73e8', path: 'M18.5 7.5A8 8 0 1 0 20 12h-7.5' },
  options: {},
  issuer: () => 'https://accounts.google.com',
  scopes: ['openid', 'profile', 'email'],
  userInfo: 'without ID token',
  choosesAccount: true,
  // Google's own way to ask for a refresh token.
  parameters: { access_type: 'offline' },
})
