import { AUTHELIA } from './authelia/settings.ts'
import { translateAuthelia } from './authelia/translate.ts'
import type { Foreign } from './foreign.ts'
import { refuseAll } from './forward-auth/settings.ts'
import { LE_CERT_SERVER } from './le-cert-server/settings.ts'
import { refuseCallers, translateLeCertServer } from './le-cert-server/translate.ts'
import { readOauth2Proxy } from './oauth2-proxy/read.ts'
import { OAUTH2_PROXY } from './oauth2-proxy/settings.ts'
import { translateOauth2Proxy } from './oauth2-proxy/translate.ts'
import { readYamlSettings } from './source.ts'
import {
  isOnlyTraefikForwardAuth,
  readTraefikForwardAuth,
  translateTraefikForwardAuth,
} from './traefik-forward-auth/read.ts'
import { VERSION_2, VERSION_3, VERSION_4 } from './traefik-forward-auth/settings.ts'

/** The programs that people move from, by name. */
export const PROGRAMS = {
  'oauth2-proxy': {
    service: 'forward-auth',
    tables: { 'oauth2-proxy 7.15': OAUTH2_PROXY },
    read: readOauth2Proxy,
    translate: translateOauth2Proxy,
    refuse: refuseAll,
    isOnlyTheirs: () => true,
  },
  'traefik-forward-auth': {
    service: 'forward-auth',
    tables: {
      'traefik-forward-auth 4': VERSION_4,
      'traefik-forward-auth 3': VERSION_3,
      'thomseddon/traefik-forward-auth 2': VERSION_2,
    },
    read: readTraefikForwardAuth,
    translate: translateTraefikForwardAuth,
    refuse: refuseAll,
    isOnlyTheirs: isOnlyTraefikForwardAuth,
  },
  authelia: {
    service: 'forward-auth',
    tables: { Authelia: AUTHELIA },
    read: async (text, file) => readYamlSettings(text, file),
    translate: translateAuthelia,
    refuse: refuseAll,
    isOnlyTheirs: ({ name }) => /^(access_control|authentication_backend|notifier)\b/.test(name),
  },
  'le-cert-server': {
    service: 'cert-service',
    tables: { 'le-cert-server': LE_CERT_SERVER },
    read: async (text, file) => readYamlSettings(text, file),
    translate: translateLeCertServer,
    refuse: refuseCallers,
    isOnlyTheirs: ({ name }) =>
      /^(letsEncrypt|database|logs|server\.(bind|tsnet|listener))\b/.test(name),
  },
} as const satisfies Readonly<Record<string, Foreign>>

export type ProgramName = keyof typeof PROGRAMS
