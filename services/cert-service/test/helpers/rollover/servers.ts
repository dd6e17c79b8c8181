import { spawnSync } from 'node:child_process'
import { readFileSync, symlinkSync, watch, writeFileSync } from 'node:fs'
import type { Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Fastify from 'fastify'
import type { Test } from 'tap'
import { temporaryPaths } from '../../../../../scripts/test/nginx.ts'
import { startPostgres } from '../../../../../scripts/test/postgres.ts'
import { freePort, startProcess } from '../../../../forward-auth/test/helpers/process.ts'
import type { Gatehouse, NamedServer } from './gatehouse.ts'

/** A server whose certificate `gatehouse-certs get` keeps up to date. */
export interface RenewedServer extends NamedServer {
  /** Gets the certificate that cert-service has now, and has the server read it. */
  update(): Promise<void>
}

/** Files for servers that verify clients: of `/ca/clients.pem` and `/ca/clients.crl.pem`. */
export interface ClientAuthorities {
  /** What they are, for readers of a result. */
  readonly name: string
  readonly roots: string
  readonly lists: string
}

/** PostgreSQL never runs as root, and takes no key of others. */
const DATABASE_OWNER = process.getuid?.() === 0 ? ['--owner', 'nobody'] : []

/** A server with a listener for everybody, and listeners that verify clients. */
interface VerifyingServer extends RenewedServer {
  readonly verifiers: readonly NamedServer[]
  reload(): Promise<unknown>
}

/** A listener for each of the files by which clients are verified. */
async function listenersOf(
  server: string,
  host: string,
  authorities: readonly ClientAuthorities[],
) {
  const listeners: (NamedServer & ClientAuthorities)[] = []
  for (const files of authorities) {
    const name = `${server} with ${files.name}`
    listeners.push({ ...files, name, host, protocol: 'https', port: await freePort() })
  }
  return listeners
}

export async function startNginx(
  t: Test,
  gatehouse: Gatehouse,
  authorities: readonly ClientAuthorities[],
): Promise<VerifyingServer> {
  const { folder, env } = gatehouse
  const host = 'nginx.test'
  const tls = await gatehouse.get(host)
  const port = await freePort()
  const verifiers = await listenersOf('nginx', host, authorities)
  const blocks = [
    `listen 127.0.0.1:${port} ssl;`,
    ...verifiers.map(
      ({ port, roots, lists }) =>
        `listen 127.0.0.1:${port} ssl; ssl_verify_client on; ssl_verify_depth 2;
    ssl_client_certificate ${roots}; ssl_crl ${lists};`,
    ),
  ]
  // It would forget them otherwise.
  const clockVariables = Object.keys(env)
    .map((name) => `env ${name};`)
    .join(' ')
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `${clockVariables}
worker_processes 1;
events { }
http {
  access_log off;
  ${temporaryPaths(folder)}
  ssl_certificate ${tls}/fullchain.pem;
  ssl_certificate_key ${tls}/privkey.pem;
  ${blocks.map((block) => `server { ${block} return 200; }`).join('\n  ')}
}
`,
  )
  const globals = `pid ${folder}/nginx.pid;`
  const args = ['-e', 'stderr', '-c', file, '-g', `${globals} daemon off;`]
  await startProcess(t, { command: 'nginx', args, folder, port, env })
  const nginx = `nginx -e stderr -c ${file} -g '${globals}'`
  const reload = `${nginx} -t -q && ${nginx} -s reload`
  return {
    ...{ name: 'nginx', host, port, protocol: 'https', verifiers },
    update: async () => void (await gatehouse.get(host, ['--reload', reload])),
    reload: () => gatehouse.run('sh', ['-c', reload]),
  }
}

export async function startHaproxy(
  t: Test,
  gatehouse: Gatehouse,
  authorities: readonly ClientAuthorities[],
): Promise<VerifyingServer> {
  const { folder, env } = gatehouse
  const host = 'haproxy.test'
  const tls = await gatehouse.get(host)
  const port = await freePort()
  const verifiers = await listenersOf('HAProxy', host, authorities)
  const binds = verifiers.map(
    ({ port, roots, lists }) =>
      `  bind 127.0.0.1:${port} ssl crt ${tls}/combined.pem verify required ca-file ${roots} crl-file ${lists}`,
  )
  const file = join(folder, 'haproxy.cfg')
  writeFileSync(
    file,
    `global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend https
  bind 127.0.0.1:${port} ssl crt ${tls}/combined.pem
${binds.join('\n')}
  http-request return status 200
`,
  )
  const args = ['-W', '-p', `${folder}/haproxy.pid`, '-f', file]
  await startProcess(t, { command: 'haproxy', args, folder, port, env })
  const reload = `haproxy -c -q -f ${file} && kill -USR2 $(cat ${folder}/haproxy.pid)`
  return {
    ...{ name: 'HAProxy', host, port, protocol: 'https', verifiers },
    update: async () => void (await gatehouse.get(host, ['--reload', reload])),
    reload: () => gatehouse.run('sh', ['-c', reload]),
  }
}

export async function startDatabase(t: Test, gatehouse: Gatehouse): Promise<RenewedServer> {
  const { folder } = gatehouse
  const host = 'db.test'
  const tls = await gatehouse.get(host, DATABASE_OWNER)
  const files = { ssl_cert_file: `${tls}/fullchain.pem`, ssl_key_file: `${tls}/privkey.pem` }
  const database = await startPostgres(t, { settings: { ssl: 'on', ...files } })
  symlinkSync(database.folder, join(folder, 'postgres'))
  const reload = `kill -HUP $(head -1 ${folder}/postgres/postmaster.pid)`
  return {
    ...{ name: 'PostgreSQL', host, port: database.port, protocol: 'postgres' },
    update: async () => void (await gatehouse.get(host, [...DATABASE_OWNER, '--reload', reload])),
  }
}

/** An app that reads its files again whenever they are replaced. */
export async function startApp(t: Test, gatehouse: Gatehouse): Promise<RenewedServer> {
  const host = 'app.test'
  const tls = await gatehouse.get(host)
  const read = () => ({
    cert: readFileSync(join(tls, 'fullchain.pem')),
    key: readFileSync(join(tls, 'privkey.pem')),
  })
  const app = Fastify({ https: read(), forceCloseConnections: true })
  app.get('/', async () => 'the app')
  await app.listen({ host: '127.0.0.1', port: 0 })
  const server = app.server as Server
  const watcher = watch(join(tls, '..'), (_event, file) => {
    if (file === host) server.setSecureContext(read())
  })
  t.teardown(async () => {
    watcher.close()
    await app.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    ...{ name: 'Fastify', host, port, protocol: 'https' },
    update: async () => void (await gatehouse.get(host)),
  }
}

/** Why not all servers can run here; false if they can. */
export function missingServer(): string | false {
  const missing = ['nginx', 'haproxy'].find((command) => spawnSync(command, ['-v']).error)
  return missing === undefined ? false : `needs ${missing}`
}
