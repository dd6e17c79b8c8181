import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { canMoveClocks } from '../../services/cert-service/test/helpers/clock.ts'
import { POSTGRES_BIN } from './cluster.ts'
import { PATH } from './commands.ts'

const PROGRAMS = {
  ...{ ip: 'iproute2', iptables: 'iptables', unshare: 'util-linux', setpriv: 'util-linux' },
  ...{ pebble: 'pebble', 'pebble-challtestsrv': 'pebble' },
}
const OF_DATABASE = { etcd: 'etcd-server', patroni: 'patroni python3-etcd' }

/** What a run lacks on this machine, as one sentence; undefined if it lacks nothing. */
export function missing(storage: 'postgres' | 'sqlite'): string | undefined {
  if (process.getuid?.() !== 0) return 'it takes root, for network namespaces'
  const wanted = { ...PROGRAMS, ...(storage === 'postgres' && OF_DATABASE) }
  const packages = new Set(
    Object.entries(wanted).flatMap(([program, name]) => (isThere(program) ? [] : name)),
  )
  if (storage === 'postgres') {
    if (POSTGRES_BIN === undefined) packages.add('postgresql')
    if (!canMoveClocks) packages.add('faketime')
  }
  if (packages.size === 0) return undefined
  return `apt-get install --no-install-recommends ${[...packages].join(' ')}`
}

function isThere(program: string): boolean {
  return PATH.split(':').some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
