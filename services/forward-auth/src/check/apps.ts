import type { Policy } from './policy.ts'

/** An app that a portal offers to people. */
export interface App {
  readonly name: string
  readonly url: URL
  /** What the route of the app demands, beside the rules. */
  readonly policy: Policy | undefined
  readonly icon?: { readonly name: string } | undefined
}

interface AppConfig {
  readonly name: string
  readonly url: string
  readonly policy?: string
  readonly icon?: string
}

/** More of them are no list that anybody reads. */
export const MAX_APPS = 100

/** The apps of the configuration; undefined if it lists none. */
export function createApps(
  configs: readonly AppConfig[] | undefined,
  policies: ReadonlyMap<string, Policy>,
  readIcon: (file: string | undefined, app: number) => App['icon'],
): readonly App[] | undefined {
  return configs?.map(({ name, url, policy, icon }, index) => ({
    name,
    url: new URL(url),
    policy: policies.get(policy ?? ''),
    icon: readIcon(icon, index),
  }))
}
