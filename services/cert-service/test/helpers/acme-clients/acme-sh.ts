import { join } from 'node:path'
import { type AcmeClient, made, runFor, runWell } from './client.ts'

/** No registry has it, so it is tried where somebody puts its script into the folder. */
const { program, lacks } = made('acme.sh')

export const acmeSh: AcmeClient = {
  title: 'acme.sh 3.1',
  product: 'acme.sh',
  lacks,
  isExtra: true,
  atLimit: 'ends',
  start({ directory, rootFile, kid, hmacKey }, folder) {
    const home = join(folder, 'home')
    const command = (...args: string[]) => ({
      program,
      args: [...args, '--home', home, '--server', directory, '--ca-bundle', rootFile],
      folder,
    })
    const fileOf = (name: string) => join(home, `${name}_ecc`, 'fullchain.cer')
    return {
      async issue(name) {
        await runWell(command('--register-account', '--eab-kid', kid, '--eab-hmac-key', hmacKey))
        return runFor(command('--issue', '--webroot', folder, '-d', name), fileOf(name))
      },
      renew: (name) => runFor(command('--renew', '--force', '--ecc', '-d', name), fileOf(name)),
      wake: (name) => runFor(command('--renew', '--ecc', '-d', name), fileOf(name)),
      revoke: (name) => runWell(command('--revoke', '--ecc', '-d', name)),
    }
  },
}
