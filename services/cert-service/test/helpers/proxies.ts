import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { temporaryPaths } from '../../../../scripts/test/nginx.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/certificates')
const PATIENCE = 20_000

/** Where a proxy is, and where it finds everything else. */
interface Surroundings {
  /** For the files of all: `root.pem` is there, and the key of each proxy as `NAME.key`. */
  readonly folder: string
  /** Where it serves HTTPS. */
  readonly port: number
  readonly certServicePort: number
  readonly appPort: number
}

/** A proxy that runs. */
interface Proxy {
  /** Does what something does every minute; false if that fails. */
  refresh(...moreNames: string[]): Promise<boolean>
  /** What it has printed so far. */
  output(): string
}

type Changes = readonly (readonly [from: string, to: string])[]

/** An example with everything replaced that depends on the machine; what is not there is a fault. */
export function readExample(name: string, changes: Changes): string {
  return changes.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`${name} holds no ${JSON.stringify(from)}`)
      return text.replaceAll(from, to)
    },
    readFileSync(join(EXAMPLES, name), 'utf8'),
  )
}

function write(folder: string, name: string, changes: Changes): string {
  const file = join(folder, name)
  writeFileSync(file, readExample(name, changes))
  return file
}

async function startNginx(t: Test, around: Surroundings): Promise<Proxy> {
  const { folder, port, certServicePort, appPort } = around
  const inner = await freePort()
  const script = write(folder, 'certificates.js', [['127.0.0.1:7480', `127.0.0.1:${inner}`]])
  const file = write(folder, 'nginx.conf', [
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['127.0.0.1:7480', `127.0.0.1:${inner}`],
    ['127.0.0.1:7401', `127.0.0.1:${certServicePort}`],
    ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
    ['/etc/nginx/certificates.js', script],
    ['/etc/nginx/gatehouse.key', `${folder}/nginx.key`],
    ['/etc/gatehouse/root.pem', `${folder}/root.pem`],
    ['/var/lib/nginx/certificates', folder],
    ['http {', `http { access_log off; ${temporaryPaths(folder)}`],
  ])
  const globals = `daemon off; master_process off; pid ${folder}/nginx.pid;`
  const args = ['-e', 'stderr', '-c', file, '-g', globals]
  const { output } = await startProcess(t, { command: 'nginx', args, folder, port: inner })
  const refresh = async () => (await fetch(`http://127.0.0.1:${inner}/refresh`)).status === 204
  return { refresh, output }
}

async function startCaddy(t: Test, around: Surroundings): Promise<Proxy> {
  const { folder, port, certServicePort, appPort } = around
  const file = write(folder, 'Caddyfile', [
    ['127.0.0.1:7401', `127.0.0.1:${certServicePort}`],
    ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
    [
      'auto_https disable_certs',
      `auto_https disable_certs
       auto_https disable_redirects
       admin off
       https_port ${port}
       default_bind 127.0.0.1`,
    ],
  ])
  const env = {
    GATEHOUSE_KEY: readFileSync(join(folder, 'caddy.key'), 'utf8'),
    SSL_CERT_FILE: join(folder, 'root.pem'),
  }
  const args = ['run', '--config', file, '--adapter', 'caddyfile']
  const { output } = await startProcess(t, { command: 'caddy', args, folder, port, env })
  return { refresh: async () => true, output }
}

async function startHaproxy(t: Test, around: Surroundings): Promise<Proxy> {
  const { folder, port, certServicePort, appPort } = around
  const certificates = join(folder, 'h')
  const script = write(folder, 'haproxy-certificates.mjs', [
    ['127.0.0.1:7401', `127.0.0.1:${certServicePort}`],
    ['/etc/haproxy/gatehouse.key', `${folder}/haproxy.key`],
    ['/etc/haproxy/certificates', certificates],
    ['/run/haproxy/admin.sock', `${folder}/s`],
  ])
  const file = write(folder, 'haproxy.cfg', [
    ['/run/haproxy/admin.sock', `${folder}/s`],
    ['bind :443', `bind 127.0.0.1:${port}`],
    ['/etc/haproxy/certificates', certificates],
    ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
  ])
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: `${folder}/root.pem` }
  const refresh = (...moreNames: string[]) =>
    promisify(execFile)(
      process.execPath,
      [script, 'app.example.com', '*.apps.example.com', ...moreNames],
      { env },
    ).then(
      () => true,
      () => false,
    )
  await refresh()
  const args = ['-db', '-f', file]
  const { output } = await startProcess(t, { command: 'haproxy', args, folder, port })
  return { refresh, output }
}

/** Starts each proxy with its example. */
export const PROXIES = { nginx: startNginx, caddy: startCaddy, haproxy: startHaproxy } as const

/** Visits a name as a client that trusts `ca` alone: the names and serial of the certificate, and the page. */
export function visit(port: number, servername: string, ca: string) {
  return new Promise<{ names: string | undefined; serialNumber: string; page: string }>(
    (resolve, reject) => {
      const headers = { Host: servername }
      const to = { host: '127.0.0.1', port, servername, ca, headers, agent: false as const }
      const asked = request({ ...to, timeout: PATIENCE }, (response) => {
        const { subjectaltname, serialNumber } = (response.socket as TLSSocket).getPeerCertificate()
        const names = subjectaltname
        text(response).then((page) => resolve({ names, serialNumber, page }), reject)
      })
      asked.on('timeout', () => asked.destroy(new Error(`${servername}: no answer`)))
      asked.on('error', reject)
      asked.end()
    },
  )
}
