import type { Profile } from '@gatehouse/pki'

/** The issuer of all certificates of the profile `client`; all others issue those of `server`. */
export const CLIENT_ISSUER = 'ca-client'

/** The profile of a certificate or order, by its issuer. */
export const profileOf = ({ issuer }: { readonly issuer: string }): Profile =>
  issuer === CLIENT_ISSUER ? 'client' : 'server'
