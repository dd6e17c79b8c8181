import { execFile, spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { toPem } from '@gatehouse/pki'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import { ROOT, readDocument } from '../../../../scripts/test/markdown.ts'
import { temporaryPaths } from '../../../../scripts/test/nginx.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const KEY = 'key-of-the-tests-0123456789'
const run = promisify(execFile)

type Changes = readonly (readonly [from: string, to: string])[]

/** A text with everything replaced that depends on the machine; what is not there is a fault. */
function changed(text: string, changes: Changes): string {
  return changes.reduce((part, [from, to]) => {
    if (!part.includes(from)) throw new Error(`${JSON.stringify(from)} is not in ${part}`)
    return part.replaceAll(from, to)
  }, text)
}

const example = (name: string, changes: Changes) =>
  changed(readFileSync(join(ROOT, 'examples/client', name), 'utf8'), changes)

/** The command of a guide that writes below this folder. */
function commandOf(guide: string, out: string): string {
  const { blocks } = readDocument(`docs/${guide}.md`)
  const found = blocks.filter(({ info, text }) => info === 'sh' && text.includes(`--out ${out} `))
  if (found.length !== 1) throw new Error(`${guide} has ${found.length} commands for ${out}`)
  return (found[0]?.text ?? '').trim()
}

/** A cert-service on loopback, and a folder that all users may enter. */
async function startGatehouse(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const file = join(folder, 'config.yaml')
  writeFileSync(
    file,
    `server: { port: 0 }
metrics: { enabled: false }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: ${KEY} } }
`,
  )
  const load = () => loadCertConfig(file, {})
  const log = createLogger({ level: 'fatal', format: 'json', name: 'test' })
  const running = await serve({ loaded: await load(), log, load })
  t.teardown(running.close)
  const root = toPem('CERTIFICATE', running.app.ca.root() as Uint8Array)
  writeFileSync(join(folder, 'root.pem'), root)
  writeFileSync(join(folder, 'client.key'), KEY, { mode: 0o600 })
  // As on a machine that was set up by the guide.
  const env = {
    PATH: process.env.PATH,
    GATEHOUSE_URL: running.url.replace('127.0.0.1', 'localhost'),
    GATEHOUSE_CA: join(folder, 'root.pem'),
    GATEHOUSE_KEY_FILE: join(folder, 'client.key'),
  }
  const program = [process.execPath, ...programOf('cert-service')]
    .map((part) => `'${part}'`)
    .join(' ')
  return {
    folder,
    url: running.url,
    /** Runs the command of a guide. */
    get: (command: string, changes: Changes) =>
      run('sh', ['-c', changed(command, [['gatehouse-certs', program], ...changes])], { env }),
    revoke: (domain: string) => revokeAt(running.url, root, domain),
  }
}

async function revokeAt(url: string, ca: string, domain: string): Promise<void> {
  const { Agent, request } = await import('undici')
  const dispatcher = new Agent({ connect: { ca, servername: 'localhost' } })
  const { statusCode, body } = await request(`${url}/api/certificate/revoke`, {
    ...{ method: 'POST', dispatcher, body: JSON.stringify({ domain }) },
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
  })
  await body.dump()
  await dispatcher.close()
  if (statusCode !== 200) throw new Error(`revoked with status ${statusCode}`)
}

/** The serial number of the certificate that a server shows, by openssl, which speaks its protocol. */
async function shown(port: number, servername: string, starttls?: string): Promise<string> {
  const args = ['s_client', '-connect', `127.0.0.1:${port}`, '-servername', servername]
  if (starttls) args.push('-starttls', starttls)
  const asked = run('openssl', args, { timeout: 10_000 })
  asked.child.stdin?.end()
  // It fails while nobody listens.
  const { stdout } = await asked.catch(() => ({ stdout: '' }))
  const [pem] = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(stdout) ?? []
  return pem ? new X509Certificate(pem).serialNumber : ''
}

interface Around {
  readonly folder: string
  readonly tls: string
  readonly port: number
  readonly appPort: number
}

interface Server {
  readonly guide: string
  readonly out: string
  readonly domain: string
  readonly starttls?: string
  /** Checks that the server takes the files; what replaces the reload in the command before it runs. */
  prepare(around: Around): {
    readonly check: string
    readonly reload: string
    start(t: Test): Promise<unknown>
  }
  /** The part of the guide's command that systemd runs. */
  readonly systemd: string
  readonly more?: Changes
}

const isRoot = process.getuid?.() === 0

const SERVERS: Record<string, Server> = {
  nginx: {
    ...{ guide: 'nginx', out: '/etc/nginx/tls', domain: 'app.example.com' },
    systemd: 'nginx -t && systemctl reload nginx',
    prepare({ folder, tls, port, appPort }) {
      const file = join(folder, 'nginx.conf')
      writeFileSync(
        file,
        example('nginx.conf', [
          ['listen 443', `listen 127.0.0.1:${port}`],
          ['/etc/nginx/tls', tls],
          ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
          ['http {', `http { access_log off; ${temporaryPaths(folder)}`],
        ]),
      )
      const args = ['-e', 'stderr', '-c', file, '-g', `pid ${folder}/nginx.pid;`]
      const command = `nginx -e stderr -c ${file} -g 'pid ${folder}/nginx.pid;'`
      return {
        check: `${command} -t`,
        reload: `${command} -t && ${command} -s reload`,
        start: (t) =>
          startProcess(t, {
            command: 'nginx',
            args: [...args.slice(0, -1), `${args.at(-1)} daemon off;`],
            folder,
            port,
          }),
      }
    },
  },
  haproxy: {
    ...{ guide: 'haproxy', out: '/etc/haproxy/tls', domain: 'app.example.com' },
    systemd: 'haproxy -c -q -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy',
    prepare({ folder, tls, port, appPort }) {
      const file = join(folder, 'haproxy.cfg')
      writeFileSync(
        file,
        example('haproxy.cfg', [
          ['bind :443', `bind 127.0.0.1:${port}`],
          ['/etc/haproxy/tls', tls],
          ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
        ]),
      )
      return {
        check: `haproxy -c -q -f ${file}`,
        reload: `haproxy -c -q -f ${file} && kill -USR2 $(cat ${folder}/haproxy.pid)`,
        start: (t) =>
          startProcess(t, {
            ...{
              command: 'haproxy',
              args: ['-W', '-p', `${folder}/haproxy.pid`, '-f', file],
              folder,
              port,
            },
          }),
      }
    },
  },
  apache: {
    ...{ guide: 'client', out: '/etc/apache2/tls', domain: 'app.example.com' },
    systemd: 'apache2ctl configtest && systemctl reload apache2',
    prepare({ folder, tls, port, appPort }) {
      const file = join(folder, 'apache2.conf')
      const modules = ['mpm_event', 'ssl', 'socache_shmcb', 'proxy', 'proxy_http', 'authz_core']
      const site = example('apache.conf', [
        ['*:443', `127.0.0.1:${port}`],
        ['/etc/apache2/tls', tls],
        ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
      ])
      const load = modules.map(
        (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
      )
      const head = [
        `ServerRoot ${folder}`,
        `PidFile ${folder}/apache.pid`,
        `DefaultRuntimeDir ${folder}`,
        `Listen 127.0.0.1:${port}`,
        'ServerName localhost',
        `ErrorLog ${folder}/apache.log`,
        ...(isRoot ? ['User www-data', 'Group www-data'] : []),
      ]
      writeFileSync(file, [...load, ...head, site].join('\n'))
      return {
        check: `apache2 -t -f ${file}`,
        reload: `apache2 -t -f ${file} && apache2 -f ${file} -k graceful`,
        start: (t) =>
          startProcess(t, { command: 'apache2', args: ['-DFOREGROUND', '-f', file], folder, port }),
      }
    },
  },
  postfix: {
    ...{ guide: 'client', out: '/etc/postfix/tls', domain: 'mail.example.com', starttls: 'smtp' },
    systemd: 'postfix check && systemctl reload postfix',
    prepare({ folder, tls, port }) {
      const config = join(folder, 'postfix')
      for (const name of ['postfix', 'queue', 'postfix-data']) mkdirSync(join(folder, name))
      chownSync(join(folder, 'postfix-data'), idOf('postfix'), 0)
      writeFileSync(
        join(config, 'main.cf'),
        [
          'compatibility_level = 3.6',
          `queue_directory = ${folder}/queue`,
          `data_directory = ${folder}/postfix-data`,
          `maillog_file = ${folder}/mail.log`,
          `maillog_file_prefixes = ${folder}`,
          'myhostname = mail.example.com',
          'mydestination =',
          'alias_maps =',
          'alias_database =',
          'local_recipient_maps =',
          'inet_interfaces = loopback-only',
          example('postfix.cf', [['/etc/postfix/tls', tls]]),
        ].join('\n'),
      )
      writeFileSync(
        join(config, 'master.cf'),
        [
          `127.0.0.1:${port} inet n - n - - smtpd`,
          'cleanup unix n - n - 0 cleanup',
          'rewrite unix - - n - - trivial-rewrite',
          'tlsmgr unix - - n 1000? 1 tlsmgr',
          'postlog unix-dgram n - n - 1 postlogd',
          'anvil unix - - n - 1 anvil',
        ].join('\n'),
      )
      const postfix = `postfix -c ${config}`
      return {
        check: `${postfix} check`,
        reload: `${postfix} check && ${postfix} reload`,
        async start(t) {
          await run('sh', ['-c', `${postfix} start`])
          t.teardown(() => run('sh', ['-c', `${postfix} stop`]))
        },
      }
    },
  },
}

SERVERS.postgresql = {
  ...{
    guide: 'client',
    out: '/etc/postgresql/tls',
    domain: 'db.example.com',
    starttls: 'postgres',
  },
  systemd: 'psql -qc "SELECT pg_reload_conf()"',
  // The user as which PostgreSQL of the tests runs.
  more: [['runuser -u postgres -- ', isRoot ? 'runuser -u nobody -- ' : '']],
  prepare({ folder, tls }) {
    if (isRoot) {
      mkdirSync(tls)
      for (const path of [tls, join(folder, 'client.key')]) chownSync(path, idOf('nobody'), 0)
    }
    const text = example('postgresql.conf', [['/etc/postgresql/tls', tls]])
    const lines = [...text.matchAll(/^(\w+) = '?([^'\n]+)'?$/gm)]
    const settings = Object.fromEntries(lines.map(([, key = '', value = '']) => [key, value]))
    return {
      check: 'true',
      reload: `kill -HUP $(head -1 ${folder}/postgres/postmaster.pid)`,
      async start(t) {
        const server = await startPostgres(t, { settings })
        symlinkSync(server.folder, join(folder, 'postgres'))
        return server.port
      },
    }
  },
}

function idOf(user: string): number {
  return Number(spawnSync('id', ['-u', user], { encoding: 'utf8' }).stdout)
}

async function startApp(t: Test): Promise<number> {
  const app = createServer((_request, response) => void response.end('the app'))
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void app.close())
  return (app.address() as AddressInfo).port
}

for (const [name, { guide, out, domain, systemd, starttls, more = [], prepare }] of Object.entries(
  SERVERS,
))
  t.test(name, async (t) => {
    const gatehouse = await startGatehouse(t)
    const { folder, get } = gatehouse
    const tls = join(folder, 'tls')
    const free = await freePort()
    const appPort = await startApp(t)
    const { check, reload, start } = prepare({ folder, tls, port: free, appPort })
    const command = commandOf(guide, out)
    const quoted = (text: string) => text.replaceAll("'", `'"'"'`)

    // The server does not have the files yet.
    const [, probe = ''] = / (--probe :\d+)/.exec(command) ?? []
    await get(command, [[out, tls], [systemd, quoted(check)], [probe, ''], ...more])
    const chosen = await start(t)
    const port = typeof chosen === 'number' ? chosen : free
    const first = await until(() => shown(port, domain, starttls))
    t.ok(first, 'it serves the certificate')

    await gatehouse.revoke(domain)
    const own: Changes = [[probe, `--probe ':${port} ${starttls ?? 'tls'}'`]]
    await get(command, [[out, tls], [systemd, quoted(reload)], ...own, ...more])
    const second = await until(async () => {
      const serial = await shown(port, domain, starttls)
      return serial !== first && serial
    })
    t.not(second, first, 'and the next one after the reload')
  })
