import type { Foreign } from '@gatehouse/service-kit'
import { translateOauth2Proxy } from './oauth2-proxy.ts'
import { readOauth2Proxy } from './oauth2-proxy-read.ts'
import { OAUTH2_PROXY } from './oauth2-proxy-settings.ts'
import {
  isOnlyTraefikForwardAuth,
  readTraefikForwardAuth,
  translateTraefikForwardAuth,
} from './traefik-forward-auth.ts'
import { VERSION_2, VERSION_4 } from './traefik-forward-auth-settings.ts'
import { refuseAll } from './translation.ts'

/** The programs that people move from, by name. */
export const PROGRAMS = {
  'oauth2-proxy': {
    tables: { 'oauth2-proxy 7.15': OAUTH2_PROXY },
    read: readOauth2Proxy,
    translate: translateOauth2Proxy,
    refuse: refuseAll,
    isOnlyTheirs: () => true,
  },
  'traefik-forward-auth': {
    tables: {
      'traefik-forward-auth 4': VERSION_4,
      'thomseddon/traefik-forward-auth 2': VERSION_2,
    },
    read: readTraefikForwardAuth,
    translate: translateTraefikForwardAuth,
    refuse: refuseAll,
    isOnlyTheirs: isOnlyTraefikForwardAuth,
  },
} as const satisfies Readonly<Record<string, Foreign>>

export type ProgramName = keyof typeof PROGRAMS
