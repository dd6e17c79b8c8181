/** The issuer of all certificates of the profile `client`; all others issue those of `server`. */
export const CLIENT_ISSUER = 'ca-client'

/** Tells whether an issuer is the embedded CA, for servers or for clients. */
export const isEmbedded = (issuer: string): boolean => issuer === 'ca' || issuer === CLIENT_ISSUER
