import { type Foreign, readYamlSettings } from '@gatehouse/service-kit'
import { refuseCallers, translateLeCertServer } from './le-cert-server.ts'
import { LE_CERT_SERVER } from './le-cert-server-settings.ts'

/** The programs that people move from, by name. */
export const PROGRAMS = {
  'le-cert-server': {
    tables: { 'le-cert-server': LE_CERT_SERVER },
    read: async (text, file) => readYamlSettings(text, file),
    translate: translateLeCertServer,
    refuse: refuseCallers,
    isOnlyTheirs: ({ name }) =>
      /^(letsEncrypt|database|logs|server\.(bind|tsnet|listener))\b/.test(name),
  },
} as const satisfies Readonly<Record<string, Foreign>>

export type ProgramName = keyof typeof PROGRAMS
