import { fromClaims } from '@gatehouse/profile'
import type { Session } from '../../src/session/session.ts'

/** A session of somebody with these claims. */
export const session = (claims: object = {}, provider = 'corp'): Session => ({
  sid: 'sid',
  portal: 'main',
  issuer: 'https://auth.example.com/portals/main',
  site: { domain: 'example.com', authOrigin: 'https://auth.example.com', basePath: '' },
  profile: fromClaims(provider, { sub: 'ada', ...claims }),
  person: 'digest',
  token: 'header.payload.signature',
  iat: 0,
  exp: 1,
  generation: 0,
})
