import { CLIENT_ISSUER } from '@gatehouse/cert-store/port'

export { CLIENT_ISSUER }

/** Tells whether an issuer is the embedded CA, for servers or for clients. */
export const isEmbedded = (issuer: string): boolean => issuer === 'ca' || issuer === CLIENT_ISSUER
