import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type BoundedFetch, type FetchInit, NetError } from '@gatehouse/net'
import { parseCsr } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { DAY, type Running, start } from '../../../services/cert-service/test/helpers/app.ts'
import { folderName } from '../src/folder.ts'
import { getOnce } from '../src/keep.ts'
import { runReload } from '../src/reload.ts'
import { clientOf, injected, listAll, lookAt } from './helpers/client.ts'
import { failAt } from './helpers/file-calls.ts'

function setTimer(fn: () => void, ms: number) {
  const timer = setTimeout(fn, ms)
  return { cancel: () => clearTimeout(timer) }
}

t.test('the reload command runs after a change only, and finds the new files', async (t) => {
  const running = await start(t)
  const out = join(running.folder, 'reloads')
  const reload = `cat ${running.folder}/out/a.test/fullchain.pem >> ${out}; echo >> ${out}`
  const { get, dir } = clientOf(running, { reload })
  const chains = [lookAtChain()]
  function lookAtChain() {
    return existsSync(join(dir, 'a.test'))
      ? readFileSync(join(dir, 'a.test/fullchain.pem'), 'utf8')
      : ''
  }
  for (const later of [0, 0, 5 * DAY, 0]) {
    await running.clock.advance(later)
    await getOnce(get)
    chains.push(lookAtChain())
  }
  t.equal(readFileSync(out, 'utf8'), `${chains[1]}\n${chains[3]}\n`)
  t.not(chains[1], chains[3])
})

t.test('a reload that fails is told, and tried again until it works', async (t) => {
  const running = await start(t)
  const works = join(running.folder, 'works')
  const { get, dir, logged } = clientOf(running, { reload: `test -e ${works}` })
  for (const _ of [1, 2]) {
    await t.rejects(getOnce(get), { code: 'CERT_CLIENT_RELOAD_FAILED', message: /exit code 1/ })
    t.ok(lookAt(dir, 'a.test'), 'the files are in place')
  }
  await running.clock.advance(5 * DAY)
  await t.rejects(getOnce(get), { code: 'CERT_CLIENT_RELOAD_FAILED' })
  t.match(
    logged.at(-2),
    { level: 'warn', code: 'CERT_CLIENT_RELOAD_FAILED' },
    'it renews all the same',
  )
  t.equal(listAll(dir).length, 4, 'the files before stay, too')
  writeFileSync(works, '')
  await getOnce(get)
  t.equal(listAll(dir).length, 3)
  t.notOk(existsSync(join(dir, 'a.test/reload-pending')))
})

t.test('a reload command does not get the secrets of the client', async (t) => {
  const file = join(testFolder(t), 'env')
  t.intercept(process, 'env', {
    value: {
      PATH: process.env.PATH,
      GATEHOUSE_KEY: 'secret-1',
      GATEHOUSE_TOKEN: 'secret-2',
      OTHER: 'x',
    },
  })
  await runReload({ command: `env > ${file}`, timeoutMs: 9_000 })
  t.match(readFileSync(file, 'utf8'), /^OTHER=x$/m)
  t.notMatch(readFileSync(file, 'utf8'), /secret/)
})

t.test('a reload that hangs is ended with all that it started', async (t) => {
  const pids = join(testFolder(t), 'pids')
  const command = `sleep 60 & echo $! > ${pids}; wait`
  await t.rejects(runReload({ command, timeoutMs: 300 }), { message: /took longer than 0.3 s/ })
  const isAlive = () => {
    try {
      return (
        readFileSync(`/proc/${readFileSync(pids, 'utf8').trim()}/stat`, 'utf8').split(' ')[2] !==
        'Z'
      )
    } catch {
      return false
    }
  }
  while (isAlive()) await new Promise(setImmediate)

  const stop = new AbortController()
  const running = runReload({ command: 'kill -9 $$', timeoutMs: 9_000 }, stop.signal)
  await t.rejects(running, { message: /ended by SIGKILL/ })
  const ended = runReload({ command: 'sleep 60', timeoutMs: 90_000 }, stop.signal)
  setImmediate(() => stop.abort())
  await t.rejects(ended, { name: 'AbortError' })
  await t.rejects(runReload({ command: 'true', timeoutMs: 9 }, stop.signal), { name: 'AbortError' })
})

t.test('two clients at once do not hurt one another', async (t) => {
  const running = await start(t)
  const reloads = join(running.folder, 'reloads')
  for (const csr of [false, true]) {
    // They wait for each other in real time.
    const clock = { ...running.clock, setTimer }
    const clients = Array.from({ length: 6 }, () =>
      clientOf({ ...running, clock }, { csr, reload: `echo >> ${reloads}` }),
    )
    await Promise.all(clients.map(({ get }) => getOnce(get)))
    const { dir } = clients[0]!
    t.ok(lookAt(dir, 'a.test'))
    t.equal(listAll(dir).length, 3)
  }
  t.equal(readFileSync(reloads, 'utf8'), '\n\n', 'and reload once for each certificate')
  const records = await running.service.store.list({ after: 0, limit: 9 })
  t.equal(records.length, 2, 'with one key of their own between them')
})

t.test('certificates in one folder do not touch each other', async (t) => {
  const running = await start(t)
  const names = ['a.test', 'a.test.example', '*.a.test', 'test']
  for (const _ of [1, 2]) {
    for (const name of names) await getOnce(clientOf(running, { names: [name] }).get)
    await running.clock.advance(5 * DAY)
  }
  const dir = join(running.folder, 'out')
  for (const name of names) t.ok(lookAt(dir, folderName(name)))
  t.equal(listAll(dir).length, 3 * names.length)
})

t.test('files have the mode and owner that are asked for, also later', async (t) => {
  const running = await start(t)
  const gid = process.getgid?.() ?? 0
  const isRoot = process.getuid?.() === 0
  const seen = (dir: string) => {
    const modes = ['privkey.pem', 'fullchain.pem', 'combined.pem', '.'].map(
      (file) => statSync(join(dir, 'a.test', file)).mode & 0o777,
    )
    return modes.map((mode) => mode.toString(8)).join()
  }
  const run = async (mode: number, owner?: { uid: number; gid: number }) => {
    const { get, dir } = clientOf(running, { folder: { mode, owner } })
    await getOnce(get)
    return dir
  }
  t.equal(seen(await run(0o600)), '600,600,600,700')
  t.equal(seen(await run(0o640)), '640,640,640,750')
  const dir = await run(0o640, { uid: -1, gid: isRoot ? 65534 : gid })
  t.equal(seen(dir), '640,640,640,750')
  t.equal(statSync(join(dir, 'a.test/privkey.pem')).gid, isRoot ? 65534 : gid)
  chmodSync(join(dir, 'a.test/privkey.pem'), 0o644)
  t.equal(seen(await run(0o640)), '640,640,640,750')
  await running.clock.advance(5 * DAY)
  t.equal(seen(await run(0o440, { uid: process.getuid?.() ?? 0, gid })), '440,440,440,750')
})

t.test('what is in the way stays as it is', async (t) => {
  const running = await start(t)
  const dir = join(running.folder, 'out')
  mkdirSync(join(dir, 'a.test'), { recursive: true })
  writeFileSync(join(dir, 'b.test'), 'mine')
  symlinkSync('/etc', join(dir, 'c.test'))
  symlinkSync('.d.test@x/../..', join(dir, 'd.test'))
  writeFileSync(join(running.folder, 'file'), '')
  const before = listAll(dir)
  for (const name of ['a.test', 'b.test', 'c.test', 'd.test'])
    t.throws(() => clientOf(running, { names: [name] }), {
      code: 'CERT_CLIENT_FILES',
      message: new RegExp(`out/${name} is in the way`),
    })
  t.throws(() => clientOf(running, { folder: { dir: join(running.folder, 'file/out') } }), {
    code: 'CERT_CLIENT_FILES',
    message: /ENOTDIR/,
  })
  t.same(listAll(dir), before)
  for (const out of ['/proc/x', '/proc/x/y', '/proc/self/fd'])
    await t.rejects(async () => getOnce(clientOf(running, { folder: { dir: out } }).get), {
      code: 'CERT_CLIENT_FILES',
      message: /proc/,
    })
})

t.test('a disk that is read-only by now does no harm while nothing is due', async (t) => {
  const running = await start(t)
  const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  for (const folder of [{}, { owner }, { mode: 0o640 }]) {
    await getOnce(clientOf(running, { folder }).get)
    const { get } = clientOf(running, { folder })
    const stop = failAt(t, 'all')
    await getOnce(get)
    t.equal(stop(), 0, 'nothing is written')
  }
})

t.test('a disk that cannot be written to leaves the old files', async (t) => {
  const running = await start(t)
  const { get, dir } = clientOf(running)
  await getOnce(get)
  const old = lookAt(dir, 'a.test')
  await running.clock.advance(5 * DAY)
  // Nobody may give files away to a user that does not exist in a user namespace, and root may not use a bad id.
  const { get: failing } = clientOf(running, { folder: { owner: { uid: 2 ** 32, gid: -1 } } })
  await t.rejects(getOnce(failing), { code: 'CERT_CLIENT_FILES' })
  t.same(lookAt(dir, 'a.test'), old)
})

t.test(
  'whichever step of a replacement fails, the old files or the new ones are whole',
  async (t) => {
    const running = await start(t)
    const { get, dir, place } = clientOf(running)
    await getOnce(get)
    const folder = { dir: join(running.folder, 'other') }
    const { get: next, place: other } = clientOf(running, { keyType: 'p384', folder })
    await getOnce(next)
    const [old, renewed] = [await place.read(), await other.read()]
    if (!old || !renewed) throw new Error('no certificate')
    const left = new Set<string>()
    for (let failing = 1, isFailed = true; isFailed; failing += 1) {
      const before = await place.read()
      const pair = before?.serialNumber === old.serialNumber ? renewed : old
      const stop = failAt(t, failing)
      const error = await place.put(pair, before).catch((thrown) => thrown)
      isFailed = failing <= stop()
      const { serialNumber } = lookAt(dir, 'a.test')
      if (isFailed) {
        t.match(error, { code: 'CERT_CLIENT_FILES', message: /EIO/ })
        left.add(serialNumber === pair.serialNumber ? 'new' : 'old')
      } else t.equal(serialNumber, pair.serialNumber)
      await place.settle()
      t.equal(listAll(dir).length, 3, 'and the next run tidies up')
    }
    t.same([...left], ['old', 'new'], 'the last steps fail when the new ones are there')
  },
)

/** A fetch that is refused so many certificates; notes the keys for which they were asked. */
function refusing(running: Running, failures: number) {
  const real = injected(running)
  const keys: string[] = []
  const fetch: BoundedFetch = Object.assign(
    async (url: URL | string, init: FetchInit = {}) => {
      if (init.method !== 'POST') return real(url, init)
      keys.push(parseCsr(JSON.parse(`${init.body}`).csr).spkiSha256)
      const answer = await real(url, init)
      // Not before the service could refuse the key itself.
      if (answer.status === 200 && failures-- > 0) throw new NetError('NET_FETCH_STATUS', 'refused')
      return answer
    },
    { close: async () => {} },
  )
  return { fetch, keys }
}

t.test('a private key waits for its certificate, however often that fails', async (t) => {
  const running = await start(t)
  const { fetch, keys } = refusing(running, 3)
  const { get, dir } = clientOf(running, { csr: true, fetch })
  for (const _ of [1, 2, 3]) await t.rejects(getOnce(get), { name: 'ClientError' })
  t.equal(statSync(join(dir, '.a.test@key')).mode & 0o777, 0o600)
  await getOnce(get)
  t.ok(lookAt(dir, 'a.test'))
  t.equal(keys.length, 4)
  t.equal(new Set(keys).size, 1)
})

t.test('so does one that is to replace the key in place', async (t) => {
  const running = await start(t)
  const first = clientOf(running, { csr: true })
  await getOnce(first.get)
  const old = lookAt(first.dir, 'a.test')
  const body = { domain: 'a.test', reason: 'keyCompromise' }
  t.equal((await running.call('POST', '/api/certificate/revoke', body)).status, 200)
  const { fetch, keys } = refusing(running, 3)
  const { get, dir } = clientOf(running, { csr: true, fetch })
  for (const _ of [1, 2, 3]) await t.rejects(getOnce(get), { name: 'ClientError' })
  t.same(lookAt(dir, 'a.test'), old)
  await getOnce(get)
  t.not(lookAt(dir, 'a.test').privateKey, old.privateKey)
  t.equal(keys.length, 5, 'the old one is tried once')
  t.equal(new Set(keys).size, 2)
  t.equal(listAll(dir).length, 3)
})

t.test('a folder name is one path segment, and tells its name', (t) => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?$/)
  const domain = fc
    .tuple(fc.constantFrom('', '*.'), fc.array(label, { minLength: 1, maxLength: 4 }))
    .map(([star, labels]) => star + labels.join('.'))
  const name = fc.oneof(domain, fc.ipV4(), fc.ipV6())
  fc.assert(
    fc.property(name, name, (one, other) => {
      const folder = folderName(one)
      t.match(folder, /^[a-z0-9_][a-zA-Z0-9._-]*$/)
      if (one !== other) t.not(folder, folderName(other))
    }),
  )
  t.end()
})
