import { once } from 'node:events'
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { createFetch } from '@gatehouse/net'
import Fastify from 'fastify'
import { pino } from 'pino'
import t from 'tap'
import { watchFiles } from '../src/files.ts'
import { manualClock } from '../src/testing.ts'
import {
  applyTls,
  serverTlsOptions,
  type TlsCredentials,
  tlsFromFiles,
  tlsSelfRenewed,
} from '../src/tls.ts'

const fixture = (name: string) =>
  readFileSync(new URL(`fixtures/${name}.pem`, import.meta.url), 'utf8')
const first = { cert: fixture('first.cert'), key: fixture('first.key') }
const second = { cert: fixture('second.cert'), key: fixture('second.key') }

// Watching files keeps no process alive, so this does.
const keepAlive = setInterval(() => {}, 60_000)
t.teardown(() => clearInterval(keepAlive))

/** A log whose lines can be awaited. */
function capture() {
  const lines: { level: number; msg: string }[] = []
  let wake = () => {}
  const write = (line: string) => {
    lines.push(JSON.parse(line))
    wake()
  }
  const line = async (count: number) => {
    while (lines.length < count) await new Promise<void>((resolve) => (wake = resolve))
    return lines[count - 1]
  }
  return { log: pino({}, { write }), lines, line }
}

async function handshake(port: number, options: object = {}): Promise<TLSSocket> {
  const ca = [first.cert, second.cert]
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca, ...options })
  await once(socket, 'secureConnect')
  return socket
}
const servedTo = (socket: TLSSocket) => socket.getPeerCertificate().subject.CN

t.test('a running server takes new credentials', async (t) => {
  const app = Fastify({ https: serverTlsOptions(first) })
  app.get('/', async () => 'answer')
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const { port } = app.server.address() as AddressInfo

  const open = await handshake(port)
  t.equal(servedTo(open), 'first')
  applyTls(app, second)
  const next = await handshake(port)
  t.equal(servedTo(next), 'second')

  open.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  const [answer] = await once(open, 'data')
  t.match(String(answer), /^HTTP\/1\.1 200 .*answer$/s, 'while the open connection goes on')
  next.destroy()

  t.test('and refuses TLS before 1.2 and ciphers without forward secrecy', async (t) => {
    for (const applied of [first, second]) {
      applyTls(app, applied)
      await t.rejects(
        handshake(port, { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'ALL:@SECLEVEL=0' }),
      )
      await t.rejects(handshake(port, { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' }))
      const socket = await handshake(port, { maxVersion: 'TLSv1.2' })
      t.match(socket.getCipher().name, /^ECDHE-ECDSA-(AES|CHACHA20).*(GCM|POLY1305)/)
      socket.destroy()
    }
  })

  t.test('which the bounded fetch trusts by its own CA only', async (t) => {
    const trusting = createFetch({ ca: second.cert })
    const other = createFetch({ ca: first.cert })
    t.teardown(() => Promise.all([trusting.close(), other.close()]))
    t.equal((await trusting(`https://127.0.0.1:${port}/`)).body.toString(), 'answer')
    await t.rejects(other(`https://127.0.0.1:${port}/`), { code: 'NET_FETCH_FAILED' })
  })
})

t.test('tlsFromFiles', async (t) => {
  const write = (folder: string, { cert, key }: TlsCredentials) => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'tls.crt'), cert)
    writeFileSync(join(folder, 'tls.key'), key)
  }
  /** As Kubernetes mounts a secret: names -> ..data -> a folder per version. */
  const mount = (folder: string) => {
    write(join(folder, '..v1'), first)
    symlinkSync('..v1', join(folder, '..data'))
    for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(folder, name))
  }
  const swap = (folder: string, version: string, credentials: TlsCredentials) => {
    write(join(folder, version), credentials)
    symlinkSync(version, join(folder, '..tmp'))
    renameSync(join(folder, '..tmp'), join(folder, '..data'))
  }
  const files = (folder: string) => ({
    certFile: join(folder, 'tls.crt'),
    keyFile: join(folder, 'tls.key'),
  })

  t.test('follows the swap of a symbolic link, and refuses a faulty pair', async (t) => {
    const folder = t.testdir({})
    mount(folder)
    const changes: TlsCredentials[] = []
    const { log, lines, line } = capture()
    const onChange = (credentials: TlsCredentials) => changes.push(credentials)
    const source = await tlsFromFiles({ ...files(folder), onChange, log })
    t.teardown(() => source.close())
    t.strictSame(source.current(), first)

    swap(folder, '..v2', { cert: first.cert, key: second.key })
    t.match(await line(1), { level: 50, msg: /refused, the old one stays/ })
    t.strictSame([source.current(), changes], [first, []])

    swap(folder, '..v3', second)
    t.match(await line(2), { level: 30, msg: 'TLS certificate replaced' })
    t.strictSame([source.current(), changes], [second, [second]])
    t.notMatch(JSON.stringify(lines), 'PRIVATE KEY')
  })

  const faulty: [what: string, credentials: TlsCredentials][] = [
    ['a key of another certificate', { cert: first.cert, key: second.key }],
    ['no certificate', { cert: 'nonsense', key: first.key }],
    ['no key', { cert: first.cert, key: '' }],
    ['the two mixed up', { cert: first.key, key: first.cert }],
  ]
  for (const [what, credentials] of faulty)
    t.test(`does not start with ${what}`, async (t) => {
      const folder = t.testdir({})
      write(folder, credentials)
      const { log } = capture()
      await t.rejects(tlsFromFiles({ ...files(folder), onChange() {}, log }), {
        code: 'CONFIG_TLS_INVALID',
        message: /tls\.crt and .*tls\.key cannot be used as certificate and key: [\w ]+$/,
      })
    })

  t.test('does not start without the files', async (t) => {
    const { log } = capture()
    await t.rejects(tlsFromFiles({ ...files(t.testdir({})), onChange() {}, log }), {
      code: 'CONFIG_TLS_INVALID',
      message: /ENOENT/,
    })
  })
})

t.test('tlsSelfRenewed', async (t) => {
  const HOUR = 3_600_000
  const clock = manualClock()
  const { log, lines } = capture()
  const issued: number[] = []
  const changes: TlsCredentials[] = []
  let isDown = false
  const source = await tlsSelfRenewed({
    clock,
    log,
    onChange: (credentials) => changes.push(credentials),
    async issue() {
      issued.push(clock.now())
      if (isDown) throw new Error('no store')
      const notBefore = clock.now() - 60_000
      return { ...(issued.length % 2 ? first : second), notBefore, renewAt: clock.now() + HOUR }
    },
  })
  const start = clock.now()
  t.equal(source.current().cert, first.cert)
  await clock.advance(HOUR - 1)
  t.equal(issued.length, 1, 'not before its time')
  await clock.advance(1)
  t.equal(source.current().cert, second.cert, 'renewed at its time')
  t.equal(changes.length, 1)

  isDown = true
  await clock.advance(6 * HOUR)
  const minutes = issued.slice(2).map((at) => (at - start) / 60_000 - 120)
  t.strictSame(minutes.slice(0, 8), [0, 1, 3, 7, 15, 31, 63, 123], 'tried again, ever more seldom')
  t.equal(source.current().cert, second.cert, 'with the old one in use')
  t.ok(lines.every(({ level }) => level === 50))

  isDown = false
  await clock.advance(HOUR)
  t.equal(changes.length, 2, 'renewed when it works again')
  source.close()
  const count = issued.length
  await clock.advance(24 * HOUR)
  t.equal(issued.length, count, 'and not after close()')
})

t.test('renews its own certificate when the clock is set', async (t) => {
  const [HOUR, DAY] = [3_600_000, 86_400_000]
  const setup = async (ahead: number) => {
    const timers = manualClock()
    let shift = ahead
    const clock = { ...timers, now: () => timers.now() + shift }
    const { log } = capture()
    const issued: number[] = []
    let isStuck = false
    const source = await tlsSelfRenewed({
      clock,
      log,
      onChange() {},
      async issue() {
        const now = isStuck ? clock.now() + 5 * DAY : clock.now()
        issued.push(now)
        return { ...first, notBefore: now - 60_000, renewAt: now + 40 * DAY }
      },
    })
    t.teardown(() => source.close())
    return {
      issued,
      advance: timers.advance,
      set(ms: number) {
        shift = ms
      },
      stick(is: boolean) {
        isStuck = is
      },
      now: clock.now,
    }
  }

  for (const ahead of [2 * HOUR, 5 * DAY, 340 * DAY]) {
    const { issued, advance, set, now } = await setup(ahead)
    await advance(10 * 60_000)
    t.equal(issued.length, 1, 'nothing while the clock stays as it is')
    set(0)
    await advance(60_000)
    t.strictSame([issued.length, issued.at(-1)], [2, now()], `${ahead / HOUR} hours ahead`)
    await advance(39 * DAY)
    t.equal(issued.length, 2, 'and once only')
  }

  const behind = await setup(-100 * DAY)
  behind.set(0)
  await behind.advance(60_000)
  t.equal(behind.issued.length, 2, 'what is due by the right clock is renewed')

  const future = await setup(5 * DAY)
  future.stick(true)
  future.set(0)
  await future.advance(8 * 60_000)
  t.equal(future.issued.length, 1 + 4, 'a CA that begins in the future is asked ever more seldom')
  future.stick(false)
  await future.advance(HOUR)
  const count = future.issued.length
  await future.advance(DAY)
  t.equal(future.issued.length, count)
})

t.test('watchFiles reports each change of its files once', async (t) => {
  const folder = t.testdir({ a: '1', b: '1' })
  let told = 0
  let wake = () => {}
  const onChange = () => {
    told++
    wake()
  }
  const watcher = watchFiles([join(folder, 'a'), join(folder, 'missing')], onChange, {
    debounceMs: 5,
  })
  t.teardown(() => watcher.close())
  for (let i = 0; i < 5; i++) writeFileSync(join(folder, 'b'), String(i))
  for (const path of ['a', 'missing']) {
    const change = new Promise<void>((resolve) => (wake = resolve))
    writeFileSync(join(folder, path), '22')
    await change
  }
  t.equal(told, 2)
})

t.test(
  'whoever does not finish a handshake holds a connection for ten seconds at most',
  async (t) => {
    t.equal(serverTlsOptions({ key: '', cert: '' }).handshakeTimeout, 10_000)
  },
)
