import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AcmeClient, ofSystem, runFor, runWell } from './client.ts'

export const dehydrated: AcmeClient = {
  title: 'dehydrated 0.7',
  product: 'dehydrated',
  lacks: ofSystem('dehydrated'),
  atLimit: 'ends',
  start({ directory, rootFile, kid, hmacKey }, folder) {
    const config = join(folder, 'config')
    const lines = {
      CA: directory,
      BASEDIR: folder,
      WELLKNOWN: folder,
      EAB_KID: kid,
      EAB_HMAC_KEY: hmacKey,
      CURL_OPTS: `--cacert ${rootFile}`,
      CONTACT_EMAIL: 'ops@example.com',
    }
    writeFileSync(
      config,
      Object.entries(lines)
        .map(([key, value]) => `${key}="${value}"\n`)
        .join(''),
    )
    const command = (...args: string[]) => ({
      program: 'dehydrated',
      args: ['--config', config, ...args],
      folder,
    })
    const fileOf = (name: string, file: string) => join(folder, 'certs', name, file)
    const issue = (name: string, ...args: string[]) =>
      runFor(command('--cron', '--domain', name, ...args), fileOf(name, 'fullchain.pem'))
    return {
      async issue(name) {
        await runWell(command('--register', '--accept-terms'))
        return issue(name)
      },
      renew: (name) => issue(name, '--force'),
      revoke: (name) => runWell(command('--revoke', fileOf(name, 'cert.pem'))),
    }
  },
}
