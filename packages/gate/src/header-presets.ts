import type { HeaderRow } from './headers.ts'

export const PRESETS = ['default', 'remote-*', 'x-auth-request-*', 'tailscale-*'] as const

type Preset = (typeof PRESETS)[number]

export type HeadersConfig = Preset | readonly (Preset | HeaderRow)[]

const PRESET_ROWS: Readonly<Record<Preset, readonly HeaderRow[]>> = {
  default: [
    { name: 'X-Forwarded-User', property: 'user' },
    { name: 'X-Forwarded-Displayname', property: 'name' },
    { name: 'X-Authenticated-User', property: 'json' },
  ],
  'remote-*': [
    { name: 'Remote-User', property: 'user' },
    { name: 'Remote-Name', property: 'name' },
    { name: 'Remote-Email', property: 'email' },
    { name: 'Remote-Groups', property: 'groups' },
  ],
  'x-auth-request-*': [
    { name: 'X-Auth-Request-User', property: 'user' },
    { name: 'X-Auth-Request-Email', property: 'email' },
    { name: 'X-Auth-Request-Preferred-Username', property: 'username' },
    { name: 'X-Auth-Request-Groups', property: 'groups' },
  ],
  // As Tailscale Serve sends them.
  'tailscale-*': [
    { name: 'Tailscale-User-Login', property: 'username', encoding: 'rfc2047' },
    { name: 'Tailscale-User-Name', property: 'name', encoding: 'rfc2047' },
    { name: 'Tailscale-User-Profile-Pic', property: 'picture', encoding: 'rfc2047' },
  ],
}

/** A configured header, and the entry of the list that it comes from. */
export type HeaderEntry = HeaderRow & { readonly entry: number }

/** A header of the list replaces the one of that name in a preset; other duplicates stay, for the fault that they are. */
export function headerRows(headers: HeadersConfig): readonly HeaderEntry[] {
  const entries: readonly (Preset | HeaderRow)[] = [headers].flat()
  const listedNames = new Set(
    entries.flatMap((row) => (typeof row === 'string' ? [] : row.name.toLowerCase())),
  )
  return entries.flatMap((row, entry) =>
    typeof row === 'string'
      ? PRESET_ROWS[row]
          .filter(({ name }) => !listedNames.has(name.toLowerCase()))
          .map((header) => ({ ...header, entry }))
      : { ...row, entry },
  )
}
