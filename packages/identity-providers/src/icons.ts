import { type Icon, PRESETS } from './presets/index.ts'

const github: Icon = {
  name: 'github',
  color: '#24292f',
  path: 'M5 4.5 9 7h6l4-2.5v7a7 7 0 0 1-14 0zM9 18v3.5M15 18v3.5',
}

const tailscale: Icon = {
  name: 'tailscale',
  color: '#3d4451',
  path: 'M4.5 4.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1zM4.5 11.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1zM4.5 18.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1z',
}

const ICONS = [...PRESETS.map(({ icon }) => icon), github, tailscale]

export const PROVIDER_ICONS: ReadonlyMap<string, Icon> = new Map(
  ICONS.map((icon) => [icon.name, icon]),
)
