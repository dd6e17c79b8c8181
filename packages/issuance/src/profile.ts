/** The issuer of all certificates of the profile `client`; all others issue those of `server`. */
export const CLIENT_ISSUER = 'ca-client'
