// `npm start`: cert-service, forward-auth and an identity provider to try them with, in one process.
// What they need is made at first start and kept in .gatehouse.
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { startDemoIdp } from '@gatehouse/demo-idp'
import { createFetch } from '@gatehouse/net'
import { toPem } from '@gatehouse/pki'
import { createLogger, type LogOptions, systemClock, tlsFromFiles } from '@gatehouse/service-kit'
import { serve as serveCerts } from '../../services/cert-service/src/cli/serve.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { serve as serveAuth } from '../../services/forward-auth/src/cli/serve.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { keepCertificate } from './certificate.ts'
import { screen } from './screen.ts'

// Browsers know that every name below localhost is this machine.
const DOMAIN = 'gatehouse.localhost'
const PORTS = { GATEHOUSE_PORT: '7401', GATEHOUSE_AUTH_PORT: '8443', GATEHOUSE_IDP_PORT: '8444' }

const folder = resolve(process.env.GATEHOUSE_DIR ?? join(import.meta.dirname, '../../.gatehouse'))
const env = { ...PORTS, ...process.env, GATEHOUSE_DIR: folder }
const portNames = Object.keys(PORTS) as (keyof typeof PORTS)[]
const certs = `https://localhost:${env.GATEHOUSE_PORT}`
const auth = `https://auth.${DOMAIN}:${env.GATEHOUSE_AUTH_PORT}`
const keyFile = join(folder, 'keys/api.key')
const rootFile = join(folder, 'root.pem')
const tlsFile = join(folder, `tls/${DOMAIN}.pem`)
const log = createLogger({ level: 'warn', format: 'auto', name: 'quickstart' })

interface Closable {
  close(): Promise<void>
}
interface LoadedService {
  readonly value: { readonly log: Omit<LogOptions, 'name'> }
}
interface ServeOptions<Loaded> {
  readonly loaded: Loaded
  readonly log: ReturnType<typeof createLogger>
  load(): Promise<Loaded>
}

const running: Closable[] = []
try {
  for (const name of portNames)
    if (!/^[1-9]\d{0,4}$/.test(env[name])) throw new Error(`${name} is not the number of a port`)
  for (const name of ['keys', 'tls'])
    await mkdir(join(folder, name), { recursive: true, mode: 0o700 })
  await startCertService()
  const idp = await startIdp()
  await start('forward-auth', loadForwardAuthConfig, serveAuth)
  process.stdout.write(screen({ certs, auth, idp, folder, keyFile, rootFile }))
} catch (error) {
  process.stderr.write(`gatehouse: ${explain(error as Error)}\n`)
  process.exitCode = 1
  for (const { close } of running.reverse()) await close()
}

/** With a certificate for the others, kept renewed. */
async function startCertService(): Promise<void> {
  const apiKey = await secret('api.key')
  const { url, service } = await start('cert-service', loadCertConfig, serveCerts)
  const ca = toPem('CERTIFICATE', service.ca.root() as Uint8Array)
  await writeFile(rootFile, ca)
  const wish = { url, apiKey, domain: `*.${DOMAIN}`, file: tlsFile }
  await keepCertificate(wish, { fetch: createFetch({ ca }), clock: systemClock, log })
}

async function startIdp(): Promise<string> {
  const portal = `${auth}/portals/main`
  const client = {
    clientId: 'gatehouse',
    clientSecret: await secret('idp-client.secret'),
    redirectUris: [`${portal}/oauth2/callback`],
    postLogoutRedirectUris: [`${portal}/logout`],
  }
  const files = { certFile: tlsFile, keyFile: tlsFile }
  const tls = await tlsFromFiles({ ...files, log, onChange: (fresh) => idp.setCertificate(fresh) })
  const idp = await startDemoIdp({
    host: `idp.${DOMAIN}`,
    port: Number(env.GATEHOUSE_IDP_PORT),
    tls: tls.current(),
    clients: [client],
  })
  running.push(idp)
  return idp.issuer
}

/** Runs a service as its own program would. */
async function start<Loaded extends LoadedService, Serving extends Closable>(
  name: string,
  load: (file: string, environment: typeof env) => Promise<Loaded>,
  serve: (options: ServeOptions<Loaded>) => Promise<Serving>,
): Promise<Serving> {
  const read = () => load(join(import.meta.dirname, `${name}.yaml`), env)
  const loaded = await read()
  const log = createLogger({ ...loaded.value.log, name })
  const serving = await serve({ loaded, log, load: read })
  running.push(serving)
  return serving
}

/** One of its own for each clone. */
async function secret(name: string): Promise<string> {
  const file = join(folder, 'keys', name)
  const fresh = randomBytes(32).toString('base64url')
  await writeFile(file, `${fresh}\n`, { mode: 0o600, flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
  return (await readFile(file, 'utf8')).trim()
}

function explain(error: NodeJS.ErrnoException): string {
  const { syscall, port, code } = (error.cause ?? error) as NodeJS.ErrnoException & {
    port?: number
  }
  if (syscall === 'listen' && port !== undefined) {
    const name = portNames.find((key) => env[key] === String(port))
    return `cannot listen on port ${port} (${code}); choose another one: ${name}=${port + 10} npm start`
  }
  return error.path === undefined ? error.message : `cannot write ${error.path} (${error.code})`
}
