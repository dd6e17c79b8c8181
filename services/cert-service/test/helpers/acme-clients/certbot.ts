import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Account, type AcmeClient, made, ofSystem, runFor, runWell } from './client.ts'

const certbot = (
  title: string,
  { program, lacks }: { readonly program: string; readonly lacks: string | false },
  knowsAri: boolean,
): AcmeClient => ({
  title,
  product: 'CertbotACMEClient',
  lacks,
  atLimit: 'ends',
  start(account, folder) {
    const command = (...args: string[]) => ({
      program,
      args: [...args, ...optionsOf(account, folder)],
      folder,
      env: { REQUESTS_CA_BUNDLE: account.rootFile },
    })
    const fileOf = (name: string) => join(folder, 'etc/live', name, 'fullchain.pem')
    const renew = (name: string, ...args: string[]) =>
      runFor(
        command('renew', '--cert-name', name, '--no-random-sleep-on-renew', ...args),
        fileOf(name),
      )
    return {
      async issue(name) {
        const outcome = await runFor(command('certonly', '--standalone', '-d', name), fileOf(name))
        // On Python 3.11, version 2.1 cannot print an error of the server.
        const log = readFileSync(join(folder, 'logs/letsencrypt.log'), 'utf8')
        return outcome.chain === undefined ? { said: outcome.said + log } : outcome
      },
      renew: (name) => renew(name, '--force-renewal'),
      ...(knowsAri && { wake: (name) => renew(name) }),
      revoke: (name) => runWell(command('revoke', '--cert-name', name, '--no-delete-after-revoke')),
    }
  },
})

const optionsOf = ({ directory, kid, hmacKey }: Account, folder: string): readonly string[] => [
  ...['--non-interactive', '--agree-tos', '--register-unsafely-without-email'],
  ...['--config-dir', join(folder, 'etc'), '--work-dir', join(folder, 'work')],
  ...['--logs-dir', join(folder, 'logs'), '--server', directory],
  ...[`--eab-kid=${kid}`, `--eab-hmac-key=${hmacKey}`],
]

export const certbot5 = certbot('certbot 5.8', made('certbot/bin/certbot'), true)

export const certbot2 = certbot(
  'certbot 2.1',
  { program: '/usr/bin/certbot', lacks: ofSystem('certbot') },
  false,
)
