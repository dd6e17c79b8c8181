import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type AcmeClient, ofSystem, run, runFor, runWell } from './client.ts'

/** It trusts what the system trusts, so it sees another file there. */
const TRUST = 'mount --bind "$0" /etc/ssl/certs/ca-certificates.crt && exec uacme "$@"'

export const uacme: AcmeClient = {
  title: 'uacme 1.7',
  product: 'uacme',
  lacks: process.getuid?.() === 0 ? ofSystem('uacme') : 'it takes root to change what it trusts',
  atLimit: 'ends',
  keepsKey: true,
  start({ directory, rootFile, kid, hmacKey }, folder) {
    const command = (...args: string[]) => ({
      program: 'unshare',
      args: [
        ...['--mount', 'sh', '-c', TRUST, rootFile],
        ...['--confdir', folder, '--acme-url', directory, '--yes', '--hook', '/bin/true', ...args],
      ],
      folder,
    })
    const fileOf = (name: string) => join(folder, name, 'cert.pem')
    return {
      async issue(name) {
        // It says so if there is one.
        await run(command('--eab', `${kid}:${hmacKey}`, 'new'))
        return runFor(command('issue', name), fileOf(name))
      },
      async renew(name) {
        // It names its files by the second.
        await pause(1_000)
        return runFor(command('--force', 'issue', name), fileOf(name))
      },
      revoke: (name) => runWell(command('revoke', fileOf(name))),
    }
  },
}
