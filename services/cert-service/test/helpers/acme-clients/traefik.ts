import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../../../scripts/free-ports.ts'
import { type Account, type AcmeClient, serveUntil } from './client.ts'

const program = process.env.TRAEFIK

interface Stored {
  readonly gatehouse?: {
    Certificates?: readonly { domain: { main: string }; certificate: string }[] | null
  }
}

export const traefik: AcmeClient = {
  title: 'Traefik 3.6',
  product: 'containous-traefik',
  lacks: program === undefined && '$TRAEFIK names no Traefik',
  atLimit: 'ends',
  start(account, folder) {
    const store = join(folder, 'acme.json')
    const read = (): Stored => {
      const text = existsSync(store) ? readFileSync(store, 'utf8') : ''
      return text.endsWith('}') ? JSON.parse(text) : {}
    }
    const find = (name: string) => {
      const held = read().gatehouse?.Certificates?.find(({ domain }) => domain.main === name)
      return held && Buffer.from(held.certificate, 'base64').toString()
    }
    const issue = async (name: string) => {
      const file = await configure(account, folder, name)
      const command = { program: String(program), args: [`--configFile=${file}`], folder }
      // It takes ten seconds to stop.
      const stop = 'SIGKILL'
      return serveUntil({ ...command, stop }, () => find(name), /Unable to obtain ACME certificate/)
    }
    return {
      issue,
      renew(name) {
        const stored = read()
        if (stored.gatehouse) stored.gatehouse.Certificates = null
        writeFileSync(store, JSON.stringify(stored))
        chmodSync(store, 0o600)
        return issue(name)
      },
    }
  },
}

/** Writes both files of its configuration, which may be JSON; gives the path of the first. */
async function configure(account: Account, folder: string, name: string): Promise<string> {
  const { directory, rootFile, kid, hmacKey } = account
  const [file, dynamic] = [join(folder, 'traefik.yaml'), join(folder, 'dynamic.yaml')]
  const acme = {
    ...{ caServer: directory, caCertificates: [rootFile], eab: { kid, hmacEncoded: hmacKey } },
    ...{ email: 'ops@example.com', storage: join(folder, 'acme.json'), tlsChallenge: {} },
  }
  const websecure = { address: `127.0.0.1:${await freePort()}` }
  const config = {
    ...{ global: { checkNewVersion: false, sendAnonymousUsage: false } },
    ...{ entryPoints: { websecure }, providers: { file: { filename: dynamic } } },
    certificatesResolvers: { gatehouse: { acme } },
  }
  writeFileSync(file, JSON.stringify(config))
  const app = {
    ...{ rule: `Host(\`${name}\`)`, service: 'noop@internal', entryPoints: ['websecure'] },
    tls: { certResolver: 'gatehouse' },
  }
  writeFileSync(dynamic, JSON.stringify({ http: { routers: { app } } }))
  return file
}
