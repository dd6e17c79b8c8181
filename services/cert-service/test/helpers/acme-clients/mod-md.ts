import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from '../../../../../scripts/free-ports.ts'
import { type Account, type AcmeClient, ofSystem, readChain, serveUntil } from './client.ts'

const MODULES = ['mpm_event', 'ssl', 'socache_shmcb', 'md', 'authz_core']

export const modMd: AcmeClient = {
  title: 'mod_md 2.6',
  product: 'Apache',
  lacks: ofSystem('apache2'),
  atLimit: 'waits',
  start(account, folder) {
    const file = join(folder, 'apache2.conf')
    // Its processes are of another user.
    chmodSync(folder, 0o755)
    const fileOf = (stage: string, name: string) => join(folder, 'md', stage, name, 'pubcert.pem')
    /** A certificate waits until the server starts again. */
    const serve = async (name: string) => {
      writeFileSync(file, await configOf(account, folder, name))
      rmSync(join(folder, 'log'), { force: true })
      const command = { program: 'apache2', args: ['-DFOREGROUND', '-f', file], folder }
      const log = () =>
        existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8') : ''
      const find = () => {
        if (log().includes('AH10059')) return readChain(fileOf('staging', name))
        // It tries again soon what was limited.
        return /AH10056(?!.*too many)/.test(log()) ? '' : undefined
      }
      const { chain, said } = await serveUntil(command, find)
      return { said: said + log(), ...(chain && { chain }) }
    }
    return {
      issue: serve,
      renew(name) {
        for (const stage of ['domains', 'staging'])
          rmSync(join(folder, 'md', stage, name), { recursive: true, force: true })
        return serve(name)
      },
      wake: serve,
    }
  },
}

async function configOf(
  { directory, rootFile, kid, hmacKey }: Account,
  folder: string,
  name: string,
): Promise<string> {
  const [http, https] = await freePorts(2)
  return `${MODULES.map((one) => `LoadModule ${one}_module /usr/lib/apache2/modules/mod_${one}.so`).join('\n')}
ServerRoot ${folder}
PidFile ${folder}/pid
DefaultRuntimeDir ${folder}
Listen 127.0.0.1:${http}
Listen 127.0.0.1:${https}
ServerName localhost
ServerAdmin ops@example.com
ErrorLog ${folder}/log
LogLevel warn md:debug
${process.getuid?.() === 0 ? 'User www-data\nGroup www-data' : ''}
MDCertificateAuthority ${directory}
MDCACertificateFile ${rootFile}
MDExternalAccountBinding ${kid} ${hmacKey}
MDCertificateAgreement accepted
MDStoreDir ${folder}/md
MDPortMap http:${http} https:${https}
MDRetryDelay 5s
MDomain ${name}
<VirtualHost 127.0.0.1:${https}>
  ServerName ${name}
  SSLEngine on
</VirtualHost>
`
}
