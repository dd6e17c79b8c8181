import type { Profile, ProfileJson } from './schema.ts'

/** The profile as `profile.json` answers it: without roles and other claims. */
export function toJson({ roles, claims, ...shared }: Profile): ProfileJson {
  return { authenticated: true, ...shared }
}
