import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createSecureContext } from 'node:tls'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { lookAt } from '../../../../packages/certs-client/test/helpers/client.ts'
import { freePort } from '../../../../scripts/free-ports.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { until } from '../../../../scripts/test/until.ts'
import { createHome, KEY, revoke, startService } from '../helpers/service.ts'

/** The program as a client of a service; `url` may change, as when the service starts again. */
async function stage(t: Test) {
  const home = createHome(join(testFolder(t), 'service'))
  const service = await startService(t, home)
  const keyFile = join(home.base, 'client.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const start = (args: readonly string[], url = service.url): ChildProcess => {
    const env = { PATH: process.env.PATH, GATEHOUSE_URL: url, GATEHOUSE_KEY_FILE: keyFile }
    const child = spawn(process.execPath, [...programOf('cert-service'), ...args], { env })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
  const run = async (args: readonly string[], url?: string) => {
    const child = start(args, url)
    const [out, err, [code]] = await Promise.all([
      text(child.stdout!),
      text(child.stderr!),
      once(child, 'exit'),
    ])
    return { code, out, err }
  }
  return { service, run, start, dir: join(home.base, 'tls') }
}

t.test('get writes files, runs the command, and is quiet if nothing is due', async (t) => {
  const { run, dir, service } = await stage(t)
  const reload = 'echo reloaded'
  const get = ['get', 'a.test', '*.a.test', '--out', dir, '--reload', reload, '--mode', '640']
  const first = await run(get)
  t.match(first, { code: 0, err: 'reloaded\n' })
  t.match(
    first.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [{ msg: 'a new certificate is in place' }, { msg: 'the reload command succeeded' }],
  )
  t.same(lookAt(dir, 'a.test').names, ['*.a.test', 'a.test'])
  t.same(await run(get), { code: 0, out: '', err: '' })

  t.ok(await revoke(service.url, 'a.test'))
  const failing = [...get, '--reload', 'exit 3']
  t.match(await run(failing), {
    code: 1,
    err: /exit code 3.*CERT_CLIENT_RELOAD_FAILED.*\n.*by hand/,
  })
  t.match(await run(get), { code: 0, err: 'reloaded\n' }, 'the next run reloads')

  t.match(
    await run(get, 'http://127.0.0.1:1'),
    { code: 0, out: /is not due/ },
    'the service is away',
  )
  const other = ['get', 'b.test', '--out', dir, '--timeout', '600ms']
  t.match(await run(other, 'http://127.0.0.1:1'), { code: 1, err: /CERT_CLIENT_UNREACHABLE/ })
  for (const wrong of [
    ['get'],
    ['get', 'a b', '--out', dir],
    ['get', 'a.test'],
    ['get', 'a.test', '--nope'],
  ])
    t.match(await run(wrong), { code: 2, err: /^gatehouse-certs: / })
  t.match(await run(['get', 'a.test', '--out', dir, '--mode', '644']), {
    code: 2,
    err: /every user/,
  })
})

t.test('with --profile client it is about client certificates', async (t) => {
  const { run, dir } = await stage(t)
  const profile = ['--profile', 'client']
  for (const [name, folder] of [
    ['ada@a.test', '_client.ada%40a.test'],
    ['a.test', '_client.a.test'],
  ] as const) {
    const get = ['get', name, ...profile, '--out', dir, '--csr']
    t.match(await run(get), { code: 0, err: '' })
    t.same(lookAt(dir, folder).names, [name])
    t.same(await run(get), { code: 0, out: '', err: '' }, 'nothing is due')
    t.equal(JSON.parse((await run(['show', name, ...profile, '--json'])).out).issuer, 'ca-client')
  }
  t.match(await run(['show', 'a.test']), { code: 1, err: /CERT_NOT_FOUND/ })
  t.match(await run(['revoke', 'a.test', ...profile]), { code: 0 })
  t.match(await run(['delete', 'ada@a.test', ...profile]), { code: 0 })
  t.match(await run(['get', '*.a.test', ...profile, '--out', dir]), { code: 2 })
})

t.test('with --p12 the files of Java are beside the others', async (t) => {
  const { run, dir, service } = await stage(t)
  const [passwordFile, ca] = [join(dir, '../password'), join(dir, '../root.pem')]
  writeFileSync(passwordFile, 'a password\n', { mode: 0o644 })
  writeFileSync(ca, await (await fetch(`${service.url}/ca/root.pem`)).text())
  const get = ['get', 'a.test', '--out', dir, '--ca', ca]
  const p12 = [...get, '--p12', '--p12-password-file', passwordFile]
  t.match(await run(p12), { code: 0, out: /every user of this machine may read this file/ })
  chmodSync(passwordFile, 0o600)
  t.same(await run(p12), { code: 0, out: '', err: '' }, 'nothing is due')
  const passphrase = 'a password'
  const pfx = readFileSync(join(dir, 'a.test/bundle.p12'))
  t.doesNotThrow(() => createSecureContext({ pfx, passphrase }))
  t.ok(existsSync(join(dir, 'a.test/truststore.p12')))
  for (const half of [['--p12'], ['--p12-password-file', passwordFile]])
    t.match(await run([...get, ...half]), { code: 2, err: /need each other/ })
  writeFileSync(passwordFile, '')
  t.match(await run(p12), { code: 1, err: /is empty.*CERT_CLIENT_CREDENTIALS/ })
})

t.test('with --watch it waits for the service, and SIGTERM ends it', async (t) => {
  const { start, run, dir, service } = await stage(t)
  const child = start(['get', 'a.test', '--out', dir, '--watch', '--csr'])
  const exited = once(child, 'exit')
  await until(() => existsSync(join(dir, 'a.test')))
  child.kill('SIGTERM')
  t.same(await exited, [0, null])

  const port = await freePort()
  const waiting = start(['get', 'b.test', '--out', dir, '--watch'], `http://127.0.0.1:${port}`)
  let out = ''
  waiting.stdout?.on('data', (chunk) => (out += chunk))
  await until(() => out.includes('CERT_CLIENT_UNREACHABLE'))
  waiting.kill('SIGTERM')
  t.same(await once(waiting, 'exit'), [0, null])

  // While a command runs.
  const mark = join(dir, '../mark')
  const reloading = start([
    'get',
    'c.test',
    '--out',
    dir,
    '--watch',
    '--reload',
    `touch ${mark}; sleep 60`,
  ])
  await until(() => existsSync(mark))
  reloading.kill('SIGTERM')
  t.same(await once(reloading, 'exit'), [0, null])
  rmSync(mark)
  const { code } = await run(['get', 'c.test', '--out', dir, '--reload', `touch ${mark}`])
  t.equal(code, 0)
  t.ok(existsSync(mark), 'and the next run reloads')
  await service.stop()
})

t.test('list, show, renew, revoke, delete, order', async (t) => {
  const { run, service } = await stage(t)
  t.equal((await run(['list', '--json'])).out, '')
  const { body } = await service.obtain('a.test')
  const { out: listed } = await run(['list', '--json'])
  t.match(JSON.parse(listed), { domain: 'a.test', keyType: 'p256' })
  const { out } = await run(['show', 'a.test', '--json'])
  t.match(JSON.parse(out), { serialNumber: body.serialNumber, certificate: body.certificate })
  t.notMatch(out, /PRIVATE KEY/)
  t.equal((await run(['show', 'a.test', '--pem'])).out, body.certificate)
  t.match(await run(['renew', 'a.test']), {
    code: 1,
    err: /it is due at .*CERT_RENEW_TOO_SOON.*\nTry again/,
  })
  const revoked = await run(['revoke', 'a.test', '--reason', 'superseded', '--json'])
  t.same(JSON.parse(revoked.out).serialNumbers, [body.serialNumber])
  t.match(await run(['revoke', 'a.test', '--reason', 'x']), { code: 2, err: /keyCompromise/ })
  await service.obtain('b.test')
  const deleted = await run(['delete', 'b.test', '--json'])
  t.same(JSON.parse(deleted.out), { domain: 'b.test', unconfirmed: [] })
  t.match(await run(['show', 'b.test']), { code: 1, err: /CERT_NOT_FOUND/ })
  t.match(await run(['order', '7']), { code: 1, err: /CERT_ORDER_NOT_FOUND/ })
  t.match(await run(['get', '--help']), { code: 0, out: /--reload <CMD>[\s\S]*Examples:/ })
})

t.test('ca roll goes from one root to the next while clients are served', async (t) => {
  const { run, dir } = await stage(t)
  const get = ['get', 'a.test', '--out', dir]
  await run(get)
  const step = async (...words: string[]) => {
    const { code, out, err } = await run(['ca', 'roll', ...words, '--json'])
    return code === 0 ? JSON.parse(out).stage : err
  }
  t.equal(await step('status'), 'none')
  t.equal(await step('begin'), 'begun')
  t.match(await step('begin'), /CERT_ROLL_REFUSED.*\n.*ca roll status(?!.*--force)/)
  t.match(await step('use'), /CERT_ROLL_REFUSED.*\n.*--force/)
  t.equal(await step('use', '--force'), 'used', 'the client trusts the old root')
  t.equal(await step('back'), 'begun')
  t.equal(await step('use', '--force'), 'used')
  const refusal = await step('finish')
  t.match(refusal, /certificates below the old root are in force.*a\.test/)
  const command = /`gatehouse-certs (renew --under \w+)`/.exec(refusal)?.[1]?.split(' ') ?? []
  const { out } = await run([...command, '--spread', '7d', '--dry-run', '--json'])
  t.match(JSON.parse(out), { renewing: Number, asked: 0 }, 'it names the command to renew them')
  t.match(await run(['renew', '--under', 'AB:CD']), { code: 1, err: /CERT_NOT_FOUND/ })
  t.match(await run(['renew', '--key-type', 'rsa1024']), {
    code: 2,
    err: /--key-type must be one of/,
  })
  t.equal(await step('finish', '--force', '--forget-key'), 'finished')
  t.match(await run([...get]), { code: 0 })
})

t.test('probe says what is served, and get --probe looks after it', async (t) => {
  const { run, dir } = await stage(t)
  const port = await freePort()
  const probe = await run(['probe', `127.0.0.1:${port}`, '--json'])
  t.match(probe, { code: 1, err: '' })
  t.match(JSON.parse(probe.out), { address: '127.0.0.1', problems: [/cannot be reached/] })
  t.match(await run(['probe', 'localhost:1', '--protocol', 'http']), {
    code: 2,
    err: /protocols are/,
  })
  const get = ['get', 'a.test', '--out', dir]
  t.match(await run([...get, '--probe', 'x']), { code: 2, err: /x is no port such as :443/ })
  t.match(await run([...get, '--probe', ':443', '--profile', 'client']), {
    code: 2,
    err: /--probe is for certificates of servers/,
  })
  t.match(
    await run([
      ...get,
      '--probe',
      ':443 smtp',
      '--probe',
      ':1',
      '--watch',
      '--csr',
      '--lifetime',
      'x',
    ]),
    {
      code: 2,
      err: /--lifetime/,
    },
  )
})
