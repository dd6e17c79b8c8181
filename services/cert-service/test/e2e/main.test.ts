import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, get as getHttp } from 'node:http'
import { get } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { healthcheck } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { programOf } from '../../../../scripts/test/program.ts'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const KEY = 'a-key-that-may-do-everything'

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs the program until it ends. */
function run(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const argv = [...programOf('cert-service'), ...args]
    const env = { PATH: process.env.PATH ?? '' }
    execFile(process.execPath, argv, { env }, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out, err }),
    )
  })
}

async function write(t: Test, config: object): Promise<string> {
  const file = join(testFolder(t), 'config.yaml')
  const base = {
    server: { port: 0 },
    metrics: { enabled: false },
    storage: { path: 'data', masterKeyFile: 'keys/master.key' },
    auth: { psk: { key: KEY } },
  }
  await writeFile(file, stringify({ ...base, ...config }))
  return file
}

/** The service in this process, on a port that the system chose. */
async function serving(t: Test, config: object = {}) {
  const file = await write(t, config)
  const load = () => loadCertConfig(file, {})
  const { log, logged } = quietLog(t)
  const running = await serve({ loaded: await load(), log, load })
  t.teardown(running.close)
  return { ...running, file, logged, port: Number(new URL(running.url).port) }
}

function ask(options: object, protocol: typeof get = get) {
  return new Promise<{ status?: number; body: string }>((resolve, reject) => {
    protocol(
      { agent: false, headers: { authorization: `APIKey ${KEY}` }, ...options } as never,
      (response) => {
        let body = ''
        response.on('data', (part) => {
          body += part
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
      },
    ).on('error', reject)
  })
}

t.test('one clear line, and an exit code, for whatever goes wrong', async (t) => {
  const file = await write(t, {})
  const faulty = join(t.testdirName, 'faulty.yaml')
  await writeFile(faulty, 'server:\n  prot: 1\nauth: { psk: { key: short-canary } }\n')
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void taken.close())
  await new Promise((resolve) => taken.once('listening', resolve))
  const busy = join(t.testdirName, 'busy.yaml')
  const { port } = taken.address() as AddressInfo
  // In a folder of its own: the others run at the same time.
  const own = (await readFile(file, 'utf8')).replace('path: data', 'path: busy/data')
  const elsewhere = own.replace('keys/master.key', 'busy/master.key')
  await writeFile(busy, elsewhere.replace('port: 0', `port: ${port}`))

  const absent = join(t.testdirName, 'absent.yaml')
  await writeFile(absent, (await readFile(file, 'utf8')).replace(/key: .*/, 'keyFile: not-here'))

  const cases: [args: string[], code: number, out: RegExp, err: RegExp][] = [
    [['--help'], 0, /^Usage: gatehouse-certs [\s\S]+\n {2}serve /, /^$/],
    [['check-config', '--config', file], 0, /is valid\n$/, /^$/],
    [
      ['check-config', '--config', faulty],
      1,
      /^$/,
      /^.*faulty\.yaml:2:3 .*prot.*port\?\n.*:3:21 .*\ngatehouse-certs: 2 faults in .*\n$/,
    ],
    [['check-config', '--config', absent], 1, /^$/, /keyFile names a file that does not exist/],
    [['check-config', '--no-secrets', '--config', absent], 0, /is valid; .* exist: 1\n$/, /^$/],
    [
      ['serve', '--no-secrets', '--config', absent],
      2,
      /^$/,
      /unknown option '--no-secrets'; see gatehouse-certs serve --help/,
    ],
    [['--version'], 0, /^gatehouse-certs \d+\.\d+\.\d+\n$/, /^$/],
    [['serve', '--config', '/nowhere.yaml'], 1, /^$/, /^gatehouse-certs: \/nowhere\.yaml .*\n$/],
    [
      ['serve', '--config', busy],
      1,
      /^(\{.*\}\n)*$/,
      /^gatehouse-certs: cannot listen on .* in use .*\n$/,
    ],
    [
      ['backup', '--config', file],
      2,
      /^$/,
      /missing required argument 'FILE'; see gatehouse-certs backup --help/,
    ],
    [['serve', '--colour'], 2, /^$/, /^gatehouse-certs: unknown option '--colour'/],
    [['healthcheck', '--config', busy], 1, /^$/, /^gatehouse-certs: not ready: .*\n$/],
  ]
  const ended = await Promise.all(cases.map(([args]) => run(...args)))
  for (const [index, [args, code, out, err]] of cases.entries()) {
    t.match(ended[index], { code, out, err }, args.join(' '))
    t.notOk(ended[index]?.err.includes('short-canary'))
    t.notOk(/\n\s+at /.test(ended[index]?.err ?? ''), 'no stack')
  }
})

t.test('HTTPS with a certificate of its own CA, and what else listens', async (t) => {
  const { port, app, logged, file } = await serving(t, {
    server: { port: 0, names: ['certs.test'], plainHttp: { port: 0 } },
  })
  const ca = (await ask({ port, path: '/ca/root.pem', rejectUnauthorized: false })).body
  for (const name of ['localhost', 'certs.test', '127.0.0.1'])
    t.equal(
      (
        await ask({
          host: '127.0.0.1',
          servername: name.includes('1') ? '' : name,
          port,
          path: '/healthz',
          ca,
        })
      ).status,
      200,
      name,
    )
  await t.rejects(ask({ host: '127.0.0.1', servername: 'other.test', port, path: '/healthz', ca }))
  await t.rejects(ask({ port, path: '/healthz', ca, maxVersion: 'TLSv1.1' }))
  await healthcheck({ host: '0.0.0.0', port, tls: true })
  await t.rejects(healthcheck({ host: '127.0.0.1', port, tls: false }))

  const plain = logged.map((line) => /http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1]).find(Boolean)
  const plainly = (path: string) => ask({ port: plain, path }, getHttp as typeof get)
  t.equal((await plainly('/ca/crl.der')).status, 200)
  for (const path of ['/api/certificates', '/healthz', '/readyz', '/openapi.json'])
    t.equal((await plainly(path)).status, 404, path)

  t.equal((await ask({ port, path: '/api/certificates', ca })).status, 200)
  await writeFile(file, (await readFile(file, 'utf8')).replace(KEY, 'another-key-that-may-do-all'))
  process.emit('SIGHUP')
  await until(() => logged.some((line) => line.includes('configuration reloaded')))
  t.equal((await ask({ port, path: '/api/certificates', ca })).status, 401, 'the old key is gone')
  t.strictSame(app.readiness(), { ready: true, degraded: [] })
})
