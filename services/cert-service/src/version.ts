/** The version of this service, as in its package.json. */
export const VERSION = '0.1.0'
