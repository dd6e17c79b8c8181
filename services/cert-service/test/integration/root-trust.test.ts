import { spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, utimesSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createTruststore, fromPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openChainRoots } from '../../../../packages/certs-client/src/chain-roots.ts'
import { keepGetting } from '../../../../packages/certs-client/src/keep.ts'
import { openService } from '../../../../packages/certs-client/src/open.ts'
import { openFolder } from '../../../../packages/certs-client/src/place.ts'
import { readConnection, readNames } from '../../../../packages/certs-client/src/settings.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { until } from '../../../../scripts/test/until.ts'
import { KEY, leapClock, settle, start } from '../helpers/app.ts'

const HOUR = 3_600_000
const KEYS = ['cron', 'watch', 'lists'].map((name) => ({
  ...{ name, key: `the-key-of-${name}-0123456789` },
  domains: [`${name}.test`],
}))

/** A service whose root is about to be replaced, and the program of its clients. */
async function stage(t: Test) {
  const folder = testFolder(t)
  const options = { folder, tls: true, clock: leapClock(Date.now()) }
  const keys = [{ name: 'operator', key: KEY }, ...KEYS]
  const { app, call } = await start(t, { auth: { psk: { keys } } }, options)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const url = `https://localhost:${(app.server.address() as AddressInfo).port}`
  const rootsNow = async () => (await app.inject('/ca/root.pem')).body
  const write = (name: string, content: string) => {
    const file = join(folder, name)
    writeFileSync(file, content, { mode: 0o600 })
    return file
  }
  for (const { name, key } of KEYS) write(`${name}.key`, key)
  const run = async (caller: string, ...args: readonly string[]) => {
    const env = { PATH: process.env.PATH, GATEHOUSE_URL: url }
    const keyFile = join(folder, `${caller}.key`)
    const all = [...programOf('cert-service'), ...args, '--key-file', keyFile]
    const child = spawn(process.execPath, all, { env })
    t.teardown(() => child.kill('SIGKILL'))
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    return { code, out, err }
  }
  /** Who lacks the new root, by `ca roll status`. */
  const lacking = async () => {
    await settle()
    const { body } = await call('GET', '/api/ca/roll')
    return body.lacking.map((client: string) => client.replace(/ .*/, '')).sort()
  }
  const roll = async (action: string, more: object = {}) =>
    t.match(await call('POST', '/api/ca/roll', { action, ...more }), { status: 200 }, action)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  return { folder, url, run, lacking, roll, write, read, rootsNow }
}

t.test(
  'each command says what it trusts, and the status names who lacks the new root',
  async (t) => {
    const { folder, run, lacking, roll, write, rootsNow } = await stage(t)
    const ca = write('root.pem', await rootsNow())
    await roll('begin')
    t.same(await lacking(), [])
    const out = ['--out', join(folder, 'tls'), '--ca', ca]
    t.match(await run('cron', 'get', 'cron.test', ...out), { code: 0 })
    t.match(await run('lists', 'list', '--ca', ca), { code: 0 })
    t.same(await lacking(), ['psk:cron', 'psk:lists'])
    write('root.pem', await rootsNow())
    t.match(await run('cron', 'get', 'cron.test', ...out), { code: 0 })
    t.same(await lacking(), ['psk:lists'])
    t.match(
      await run('lists', 'renew', 'lists.test', '--ca', ca),
      { code: 1 },
      'a refusal counts, too',
    )
    t.same(await lacking(), [])
  },
)

t.test('runs of cron follow the roll by --ca-out', async (t) => {
  const { folder, run, lacking, roll, write, read, rootsNow } = await stage(t)
  const old = await rootsNow()
  const ca = write('root.pem', old)
  const kept = join(folder, 'kept.pem')
  const password = write('password', 'a password')
  let keyType = 'p256'
  const get = () =>
    run(
      ...(['cron', 'get', 'cron.test', '--out', join(folder, 'tls'), '--ca', ca] as const),
      ...['--ca-out', kept, '--p12', '--p12-password-file', password],
      ...['--reload', 'echo reloaded', '--key-type', keyType],
    )
  /** What one run after some hours says. */
  const later = async (hours: number) => {
    const time = (Date.now() - hours * HOUR) / 1_000
    utimesSync(`${kept}.next`, time, time)
    return get()
  }
  const holds = (roots: string, what: string) => {
    t.equal(read('kept.pem'), roots, what)
    const own = fromPem(roots).toSorted(Buffer.compare)
    t.same(fromPem(read('tls/cron.test/ca.pem')).toSorted(Buffer.compare), own, what)
    const truststore = createTruststore({
      roots: fromPem(read('tls/cron.test/ca.pem')),
      password: 'a password',
    })
    t.ok(readFileSync(join(folder, 'tls/cron.test/truststore.p12')).equals(truststore), what)
  }
  t.match(await get(), { code: 0, out: /begins with the roots/, err: 'reloaded\n' })
  holds(old, 'at first')
  t.match(await get(), { code: 0, out: '', err: '' })

  await roll('begin')
  const both = await rootsNow()
  const [, added] = fromPem(both).map((der) => new X509Certificate(der).fingerprint256)
  const fingerprint = added?.replaceAll(':', '').toLowerCase() ?? 'none'
  const news = JSON.parse((await get()).out)
  t.match(news, { file: kept, added: [fingerprint], removed: { length: 0 } })
  t.match(await later(23), { code: 0, out: '', err: '' })
  holds(old, 'for a day')
  t.same(await lacking(), ['psk:cron'])
  t.match(await later(24), { code: 0, out: new RegExp(fingerprint), err: 'reloaded\n' })
  holds(both, 'both from then on')
  t.same(await lacking(), [])
  t.match(await get(), { code: 0, out: '', err: '' })

  await roll('use', { now: true })
  // Another certificate, which the new root signs.
  keyType = 'p384'
  t.match(await get(), { code: 0, err: 'reloaded\n' })
  holds(both, 'while both count')
  t.match(await get(), { code: 0, out: '', err: '' }, 'the order of the roots is no news')
  await roll('finish', { force: true })
  const next = await rootsNow()
  // What is for programs follows at once: it never has more than the client trusts.
  t.match(await get(), { code: 0, out: /names other roots/, err: 'reloaded\n' })
  t.equal(read('kept.pem'), both)
  t.match(await later(30), { code: 0, out: /the file has the roots/, err: '' })
  holds(next, 'the new one')
  t.match(await get(), { code: 0, out: '', err: '' })
})

t.test('what --ca-out refuses', async (t) => {
  const { folder, run, write, rootsNow, url } = await stage(t)
  const ca = write('root.pem', await rootsNow())
  const out = ['get', 'cron.test', '--out', join(folder, 'tls')]
  const kept = join(folder, 'kept.pem')
  t.match(await run('cron', ...out, '--ca-out', kept), { code: 2, err: /--ca-out needs --ca/ })
  const plain = ['--ca', ca, '--ca-out', kept, '--url', url.replace('https', 'http')]
  t.match(await run('cron', ...out, ...plain), {
    code: 2,
    err: /--ca-out needs a service with TLS/,
  })
  const nowhere = ['--ca', ca, '--ca-out', join(folder, 'none/kept.pem')]
  t.match(await run('cron', ...out, ...nowhere), { code: 1, err: /ENOENT.*CERT_CLIENT_FILES/ })
  write('kept.pem', '')
  t.match(await run('cron', ...out, '--ca', ca, '--ca-out', kept), {
    code: 1,
    err: /kept\.pem is no file of certificates.*CERT_CLIENT_UNTRUSTED[\s\S]*--ca-out/,
  })
})

t.test('a client that keeps running learns of another root in its file', async (t) => {
  const { folder, url, lacking, roll, write, read, rootsNow } = await stage(t)
  const ca = write('root.pem', await rootsNow())
  const stop = new AbortController()
  const { signal } = stop
  const clock = leapClock(Date.now())
  const warned: string[] = []
  const note = (fields: object) => void warned.push(Object(fields).code)
  const log = { info() {}, warn: note, error: note }
  const connection = readConnection({ url, ca, keyFile: join(folder, 'watch.key') }, {})
  const deps = { clock, log, signal, actionFor: () => undefined }
  await using service = openService(connection, deps)
  const { roots } = service
  const chainRoots = roots && openChainRoots({ ...deps, roots, service, file: undefined })
  const dir = join(folder, 'tls')
  const place = openFolder({
    ...{ ...deps, dir, domain: 'watch.test', mode: 0o600, owner: undefined, isOwnKey: false },
    ...{ reload: undefined, chainRoots },
  })
  const watching = keepGetting({
    ...{ ...deps, request: { names: readNames(['watch.test']), keyType: undefined } },
    ...{ isOwnKey: false, place, service, chainRoots, random: () => 0, patienceMs: Infinity },
  })
  const look = async (isDone: () => boolean | Promise<boolean>) => {
    await clock.advance(2 * HOUR)
    await until(isDone)
  }
  const placed = () => {
    try {
      return read('tls/watch.test/ca.pem')
    } catch {
      return ''
    }
  }
  await until(() => placed() === readFileSync(ca, 'utf8'))
  await roll('begin')
  await look(async () => (await lacking()).includes('psk:watch'))
  const both = await rootsNow()
  write('root.pem', '')
  await look(() => warned.length > 0)
  await look(async () => (await lacking()).includes('psk:watch'))
  t.same(warned, ['CERT_CLIENT_UNTRUSTED'], 'a broken file is warned of once, and does no harm')
  write('root.pem', both)
  await look(async () => (await lacking()).length === 0)
  await until(() => placed() === both)
  stop.abort()
  await watching
  t.equal(warned.length, 1)
})
