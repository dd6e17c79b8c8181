import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from '../../../../../scripts/free-ports.ts'
import { type Account, type AcmeClient, made, ofSystem, readChain, serveUntil } from './client.ts'

/** What was limited, it tries again after a minute. */
const FAILED = /"msg":"will retry"(?!.*rateLimited)/

const caddy = (
  title: string,
  { program, lacks }: { readonly program: string; readonly lacks: string | false },
  knowsAri: boolean,
): AcmeClient => ({
  title,
  product: 'Caddy',
  lacks,
  atLimit: 'waits',
  start(account, folder) {
    const file = join(folder, 'Caddyfile')
    const fileOf = (name: string) =>
      join(globSync(join(folder, 'store/certificates/*', name))[0] ?? folder, `${name}.crt`)
    const serve = async (name: string, not?: string) => {
      writeFileSync(file, await configOf(account, folder, name))
      const args = ['run', '--config', file, '--adapter', 'caddyfile']
      return serveUntil({ program, args, folder }, () => readChain(fileOf(name), not), FAILED)
    }
    return {
      issue: (name) => serve(name),
      renew(name) {
        rmSync(join(folder, 'store/certificates'), { recursive: true })
        return serve(name)
      },
      ...(knowsAri && {
        wake(name) {
          const held = readFileSync(fileOf(name), 'utf8')
          askAgain(fileOf(name).replace(/crt$/, 'json'))
          return serve(name, held)
        },
      }),
    }
  },
})

/** Has it ask again when to renew, as it does after hours. */
function askAgain(file: string): void {
  if (!existsSync(file)) throw new Error(`${file} is not there`)
  const record = JSON.parse(readFileSync(file, 'utf8'))
  record.issuer_data.renewal_info._retryAfter = new Date(0)
  writeFileSync(file, JSON.stringify(record))
}

async function configOf(
  { directory, rootFile, kid, hmacKey }: Account,
  folder: string,
  name: string,
): Promise<string> {
  const [http, https] = await freePorts(2)
  return `{
  admin off
  storage file_system ${join(folder, 'store')}
  http_port ${http}
  https_port ${https}
  default_bind 127.0.0.1
  email ops@example.com
  renew_interval 1s
  acme_ca ${directory}
  acme_ca_root ${rootFile}
  acme_eab {
    key_id ${kid}
    mac_key ${hmacKey}
  }
}
${name} {
  respond "the app"
}
`
}

export const caddy211: AcmeClient = {
  ...caddy('Caddy 2.11', made('caddy'), true),
  isExtra: true,
}

export const caddy26 = caddy('Caddy 2.6', { program: 'caddy', lacks: ofSystem('caddy') }, false)
