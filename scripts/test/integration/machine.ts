import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { until } from '../until.ts'

const NSPAWN = '/usr/bin/systemd-nspawn'

/**
 * A copy of this system, whose changes are in memory and go with it, and a mount namespace that holds it, so that
 * nothing of it is seen outside.
 */
const BOOT = `set -eu
mkdir -p "$1"
mount -t tmpfs -o mode=755 gatehouse "$1"
mkdir "$1/changed" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" overlay "$1/root"
cd "$1/root"
# This machine is to be as any other one, and without Node.
rm -f etc/machine-id etc/hostname
find usr/bin usr/local/bin -name 'node*' -delete
# It has no network but its own.
for unit in systemd-networkd NetworkManager ifupdown; do ln -sf /dev/null etc/systemd/system/$unit-wait-online.service; done
exec setpriv --pdeathsig TERM ${NSPAWN} --boot --quiet --directory="$1/root" --register=no --keep-unit --private-network --link-journal=no \\
  --machine=gatehouse "--bind-ro=$2:/mnt" systemd.unit=basic.target`

/** A Debian with systemd as its first process, and with the loopback network alone. */
export interface Machine {
  /** Runs a command as root. Gives what it prints; a failure is an error with that. */
  run(command: string): Promise<string>
}

/** Why no machine can be booted here; undefined if one can. */
export function cannotBoot(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root may boot a machine'
  if (!existsSync(NSPAWN)) return 'the package systemd-container is not installed'
  const tried = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'try', '/mnt'])
  return tried.status === 0 ? undefined : 'this container may not mount anything'
}

/** Boots a machine that goes with the test. It sees `folder` as /mnt. */
export async function bootMachine(t: Test, folder: string): Promise<Machine> {
  const args = ['--mount', '--propagation', 'private', 'sh', '-c', BOOT, 'sh']
  const nspawn = spawn('unshare', [...args, `/run/gatehouse-${process.pid}`, folder], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = Promise.all([text(nspawn.stdout), text(nspawn.stderr)])
  const ended = once(nspawn, 'exit')
  t.teardown(async () => {
    nspawn.kill('SIGTERM')
    await ended
    execFileSync('rm', ['-rf', `/run/gatehouse-${process.pid}`])
  })
  const first = await until(() => (nspawn.exitCode === null ? firstProcess(nspawn.pid ?? 0) : -1))
  const run = (command: string) => runIn(first ?? -1, command)
  const isUp = () =>
    nspawn.exitCode !== null ||
    run('systemctl is-active basic.target').then(
      () => true,
      () => false,
    )
  await until(isUp)
  if (nspawn.exitCode !== null) throw new Error(`the machine did not boot: ${await output}`)
  return { run }
}

/** The first process of the machine: the child of systemd-nspawn. */
function firstProcess(nspawn: number): number | undefined {
  const file = `/proc/${nspawn}/task/${nspawn}/children`
  const [child] = readFileSync(file, 'utf8').trim().split(' ')
  if (!child) return undefined
  return readFileSync(`/proc/${child}/comm`, 'utf8') === 'systemd\n' ? Number(child) : undefined
}

async function runIn(first: number, command: string): Promise<string> {
  const place = [
    '--target',
    String(first),
    '--mount',
    '--uts',
    '--ipc',
    '--net',
    '--pid',
    '--cgroup',
  ]
  const child = spawn('nsenter', [...place, '--root', 'sh', '-euc', `cd /root\n${command}`], {
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  if (code === 0) return stdout
  throw new Error(`${command}\nended with ${code}:\n${stdout}${stderr}`)
}
