import { join } from 'node:path'
import { type AcmeClient, ofSystem, runFor, runWell } from './client.ts'

export const lego4: AcmeClient = {
  title: 'lego 4.9',
  product: 'lego-cli',
  lacks: ofSystem('lego'),
  atLimit: 'ends',
  start({ directory, rootFile, kid, hmacKey }, folder) {
    const command = (name: string, ...args: string[]) => ({
      program: 'lego',
      args: [
        ...['--server', directory, '--path', folder, '--email', 'ops@example.com', '--accept-tos'],
        ...['--eab', '--kid', kid, '--hmac', hmacKey, '--http', '--domains', name, ...args],
      ],
      folder,
      env: { LEGO_CA_CERTIFICATES: rootFile },
    })
    const fileOf = (name: string) => join(folder, 'certificates', `${name}.crt`)
    const renew = ['renew', '--days', '9999', '--no-random-sleep']
    return {
      issue: (name) => runFor(command(name, 'run'), fileOf(name)),
      renew: (name) => runFor(command(name, ...renew), fileOf(name)),
      revoke: (name) => runWell(command(name, 'revoke', '--keep')),
    }
  },
}
