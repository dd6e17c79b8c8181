import { Gate } from '@gatehouse/gate'

/** A gate without rules, policies and programs. */
export function gateOf(name: string): Gate {
  return new Gate(
    {
      name,
      providers: [{ name: 'corp' }],
      policies: {},
      headers: [],
      headerEncoding: 'percent',
      resources: [],
      rules: [],
      preflight: false,
    },
    { now: () => 0, elapsed: () => 0, log: { info() {}, warn() {} } },
  )
}
