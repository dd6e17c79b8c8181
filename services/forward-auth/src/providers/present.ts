import type { ProviderIcon } from './options.ts'

/** How the configuration names a provider and wants it shown. */
export interface Presentation {
  readonly type: keyof typeof PRODUCTS
  readonly name: string
  readonly title?: string
  readonly icon?: ProviderIcon
  readonly color?: string
}

const PRODUCTS = {
  openIDConnect: { title: undefined, icon: 'openid' },
  google: { title: 'Google', icon: 'google' },
  microsoftEntraID: { title: 'Microsoft', icon: 'microsoft' },
  github: { title: 'GitHub', icon: 'github' },
  gitlab: { title: 'GitLab', icon: 'gitlab' },
  pocketID: { title: 'Pocket ID', icon: 'pocket-id' },
  tailscaleWhois: { title: 'Tailscale', icon: 'tailscale' },
} as const

/** What pages need to know of a provider. */
export function present({ type, name, title, icon, color }: Presentation) {
  const product = PRODUCTS[type]
  return {
    name,
    kind: type,
    title: title ?? product.title ?? name,
    icon: icon ?? product.icon,
    color,
  }
}
