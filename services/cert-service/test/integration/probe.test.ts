import { execFile, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Protocol, parsePort, probe } from '@gatehouse/tls-probe'
import t, { type Test } from 'tap'
import { getOnce } from '../../../../packages/certs-client/src/keep.ts'
import { clientOf, lookAt } from '../../../../packages/certs-client/test/helpers/client.ts'
import { chainOf, intermediate, issue, root } from '../../../../packages/tls-probe/test/servers.ts'
import { temporaryPaths } from '../../../../scripts/test/nginx.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { start } from '../helpers/app.ts'
import { DOVECOT_PORTS, startDovecot, startPostfix, userId } from '../helpers/mail-servers.ts'

const run = promisify(execFile)
const NAME = 'mail.example.com'
/** Addresses of loopback on which servers have their usual ports. */
const [POSTFIX, DOVECOT, MARIADB] = ['127.13.23.1', '127.13.23.2', '127.13.23.3'] as const

const isRoot = process.getuid?.() === 0
const has = (program: string) => spawnSync('which', [program]).status === 0
const lacks = (program: string) =>
  (!isRoot && 'it takes root') || (!has(program) && `there is no ${program}`)

/** A folder with a certificate and its key, that all users may enter. */
async function stage(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const file = (name: string) => join(folder, name)
  const renew = async (owner?: number) => {
    const { der, key } = await issue([NAME])
    const chain = chainOf(der, intermediate)
    for (const [name, text] of [
      ['key.pem', key],
      ['chain.pem', chain],
      ['combined.pem', key + chain],
      ['root.pem', chainOf(root)],
    ] as const) {
      writeFileSync(file(name), text, { mode: 0o600 })
      if (owner !== undefined) chownSync(file(name), owner, -1)
    }
    return der
  }
  return { folder, file, renew }
}

interface Server {
  /** The address, and the ports such as `:25 smtp`. */
  readonly address?: string
  readonly ports: readonly string[]
  reload(): Promise<unknown>
  log(): string
}

interface Look {
  readonly port: string
  readonly seen: Buffer | string | undefined
}

async function lookAtAll({ address = '127.0.0.1', ports }: Server): Promise<Look[]> {
  return Promise.all(
    ports.map(async (text) => {
      const port = parsePort(text)
      if (!port) throw new Error(`${text} is no port`)
      const result = await probe({ address, ...port, serverName: NAME })
      if ('failure' in result) return { port: text, seen: result.message }
      const [leaf, issuer] = result.certificates
      if (!issuer?.equals(intermediate)) throw new Error(`${text} has no intermediate`)
      return { port: text, seen: leaf }
    }),
  )
}

const COMPLAINT = /error|warn|fatal|panic|crit|alert|lost|fail|invalid|refuse|reset|abort|EOF/i

/**
 * Tells the old certificate from the new one, before and after the reload.
 * @param known - complaints in the log that cannot be helped
 */
async function trial(
  t: Test,
  server: Server,
  renew: () => Promise<Buffer>,
  old: Buffer,
  known?: RegExp,
) {
  const expected = (seen: Buffer) => server.ports.map((port) => ({ port, seen }))
  await until(async () => (await lookAtAll(server)).every(({ seen }) => Buffer.isBuffer(seen)))
  const before = server.log().length
  t.strictSame(await lookAtAll(server), expected(old), 'the first one')
  const renewed = await renew()
  t.strictSame(await lookAtAll(server), expected(old), 'not reloaded')
  await server.reload()
  await until(async () =>
    (await lookAtAll(server)).every(({ seen }) => Buffer.isBuffer(seen) && renewed.equals(seen)),
  )
  // By now a server has written what it has to say of the first ones.
  const lines = server.log().slice(before).split('\n').filter(Boolean)
  const complaints = lines.filter((line) => COMPLAINT.test(line) && !known?.test(line))
  t.strictSame(complaints, [], 'what is in its log')
  t.comment([...new Set(lines.map((line) => line.replace(/\d+/g, '9')))].join('\n'))
}

t.test('nginx', { skip: !has('nginx') && 'there is no nginx' }, async (t) => {
  const { folder, file, renew } = await stage(t)
  const old = await renew()
  const port = await freePort()
  const conf = nginxConf(folder, port, file('chain.pem'), file('key.pem'))
  const options = { command: 'nginx', args: ['-e', 'stderr', '-c', conf], folder, port }
  const { output } = await startProcess(t, options)
  const reload = () => run('nginx', ['-e', 'stderr', '-c', conf, '-s', 'reload'])
  await trial(t, { ports: [`:${port}`], reload, log: output }, renew, old)
})

function nginxConf(folder: string, port: number, chain: string, key: string): string {
  const conf = join(folder, 'nginx.conf')
  writeFileSync(
    conf,
    `daemon off; pid ${folder}/nginx.pid; error_log stderr info; events { }
http { access_log off; ${temporaryPaths(folder)}
  server { listen 127.0.0.1:${port} ssl default_server; ssl_reject_handshake on; }
  server { listen 127.0.0.1:${port} ssl; server_name ${NAME} a.test; ssl_certificate ${chain}; ssl_certificate_key ${key}; }
}`,
  )
  return conf
}

t.test(
  'HAProxy, strict about names and clients',
  { skip: !has('haproxy') && 'there is no haproxy' },
  async (t) => {
    const { folder, file, renew } = await stage(t)
    const old = await renew()
    const port = await freePort()
    const conf = file('haproxy.cfg')
    const tls = `ssl crt ${file('combined.pem')} strict-sni ca-file ${file('root.pem')} verify required`
    writeFileSync(
      conf,
      `global
  log stderr local0 info
defaults
  mode http
  log global
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend https
  bind 127.0.0.1:${port} ${tls}
`,
    )
    const args = ['-W', '-p', file('haproxy.pid'), '-f', conf]
    const { output } = await startProcess(t, { command: 'haproxy', args, folder, port })
    const reload = async () =>
      process.kill(Number(readFileSync(file('haproxy.pid'), 'utf8')), 'SIGUSR2')
    // Of the reload.
    await trial(
      t,
      { ports: [`:${port}`], reload, log: output },
      renew,
      old,
      /Proxy \S+ stopped|Former worker/,
    )
    const unknown = {
      address: '127.0.0.1',
      port,
      protocol: 'tls' as Protocol,
      serverName: 'other.test',
    }
    t.match(await probe(unknown), { failure: 'refused' })
  },
)

t.test('Postfix', { skip: lacks('postfix') }, async (t) => {
  const { folder, file, renew } = await stage(t)
  const old = await renew()
  const certificate = file('combined.pem')
  const postfix = await startPostfix(t, folder, { address: POSTFIX, hostname: NAME, certificate })
  const server: Server = {
    address: POSTFIX,
    ports: [':25', ':587', ':465'],
    reload: () => postfix('reload'),
    log: () => readFileSync(file('mail.log'), 'utf8'),
  }
  await trial(t, server, renew, old)
})

t.test('Dovecot', { skip: lacks('dovecot') }, async (t) => {
  const { folder, file, renew } = await stage(t)
  const old = await renew()
  const [certificate, key] = [file('chain.pem'), file('key.pem')]
  const dovecot = await startDovecot(t, folder, { address: DOVECOT, certificate, key })
  const server: Server = {
    address: DOVECOT,
    ports: Object.values(DOVECOT_PORTS).map((port) => `:${port}`),
    reload: () => dovecot('reload'),
    log: () => readFileSync(file('mail.log'), 'utf8'),
  }
  await trial(t, server, renew, old, /Aborted login by logging out|SIGHUP received/)
  t.notOk(existsSync(join(folder, 'mail')))
})

t.test('PostgreSQL', { skip: !isRoot && 'it takes root' }, async (t) => {
  const { file, renew } = await stage(t)
  const owner = userId('nobody')
  const renewOwned = () => renew(owner)
  const old = await renewOwned()
  const server = await startPostgres(t, {
    settings: {
      ...{ ssl: 'on', ssl_cert_file: file('chain.pem'), ssl_key_file: file('key.pem') },
      ...{ logging_collector: 'on', log_filename: 'server.log' },
    },
  })
  const reload = () => server.sql('SELECT pg_reload_conf()')
  const log = () => readFileSync(join(server.folder, 'log/server.log'), 'utf8')
  const ports = [`:${server.port} postgres`]
  // Settings of the command line, at the reload.
  await trial(t, { ports, reload, log }, renewOwned, old, /contains errors; unaffected changes/)
})

t.test('MariaDB', { skip: lacks('mariadbd') }, async (t) => {
  const { folder, file, renew } = await stage(t)
  const owner = userId('mysql')
  const renewOwned = () => renew(owner)
  const old = await renewOwned()
  mkdirSync(file('db'))
  chownSync(file('db'), owner, -1)
  const common = ['--no-defaults', '--user=mysql', `--datadir=${file('db')}`]
  await run('mariadb-install-db', [...common, '--auth-root-authentication-method=normal'])
  const socket = file('db/s.sock')
  const tls = [`--ssl-cert=${file('chain.pem')}`, `--ssl-key=${file('key.pem')}`]
  const net = [`--bind-address=${MARIADB},127.0.0.1`, '--port=3306', `--socket=${socket}`]
  const { output } = await startProcess(t, {
    ...{ command: 'mariadbd', args: [...common, ...tls, ...net, `--pid-file=${file('db/pid')}`] },
    ...{ folder, port: 3306 },
  })
  const sql = (text: string) => run('mariadb', ['-uroot', `-S${socket}`, '-e', text])
  // A host without a user is turned away before TLS.
  await sql("CREATE USER app@'%' IDENTIFIED BY 'x'")
  const server = { address: MARIADB, ports: [':3306'], reload: () => sql('FLUSH SSL'), log: output }
  // It has this warning for everybody who does not sign in.
  await trial(t, server, renewOwned, old, /closed normally without authentication/)
})

t.test(
  'a renewed certificate and an nginx that was not reloaded',
  { skip: !has('nginx') && 'there is no nginx' },
  async (t) => {
    const running = await start(t)
    const { folder, clock } = running
    const first = clientOf(running)
    await getOnce(first.get)
    const port = await freePort()
    const tls = (name: string) => join(first.dir, 'a.test', name)
    const conf = nginxConf(folder, port, tls('fullchain.pem'), tls('privkey.pem'))
    await startProcess(t, { command: 'nginx', args: ['-e', 'stderr', '-c', conf], folder, port })
    const ports = [{ host: '', port, protocol: 'tls' }] as const
    const get = async (reload?: string) => {
      const client = clientOf(running, { ports, ...(reload !== undefined && { reload }) })
      let code: string | undefined
      const ended = getOnce(client.get).then(
        () => (code = 'served'),
        (error) => (code = error.code),
      )
      await until(async () => {
        await clock.advance(1_000)
        return code
      })
      await ended
      return code
    }
    const revoke = () => running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
    t.equal(await get(), 'served')
    await revoke()
    t.equal(await get(), 'CERT_CLIENT_NOT_SERVED', 'nobody reloads')
    t.equal(await get(), 'CERT_CLIENT_NOT_SERVED', 'and the next run finds it')
    await run('nginx', ['-e', 'stderr', '-c', conf, '-s', 'reload'])
    t.equal(await get(), 'served', 'until somebody does')
    await revoke()
    t.equal(await get(`nginx -e stderr -c ${conf} -s reload`), 'served', 'as --reload does')
    t.ok(lookAt(first.dir, 'a.test'))
  },
)
