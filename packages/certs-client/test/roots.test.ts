import { hash } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { issue } from '../../pki/test/helpers.ts'
import { createTrustingFetch, openRoots, pemOf, readRoots } from '../src/roots.ts'

const now = Date.now()
const newRoot = (commonName: string) => createRoot({ commonName, now })
const pem = ({ certificate }: { readonly certificate: Uint8Array }) =>
  toPem('CERTIFICATE', certificate)
const [old, next] = (await Promise.all(['Old', 'New'].map(newRoot))) as [
  Awaited<ReturnType<typeof newRoot>>,
  Awaited<ReturnType<typeof newRoot>>,
]
const idOf = (root: typeof old) => hash('sha256', root.certificate).slice(0, 16)

/** Serves below a root, and notes what is said of the roots. */
async function serve(t: Test, root: typeof old) {
  const intermediate = await createIntermediate({ root, commonName: 'Intermediate', now })
  const { der, key } = issue(intermediate, ['localhost'], { now })
  const cert = [der, ...intermediate.chain].map((part) => toPem('CERTIFICATE', part)).join('')
  const told: unknown[] = []
  const server = createServer({ cert, key: toPem('PRIVATE KEY', key.pkcs8) }, (request, answer) => {
    told.push(request.headers['gatehouse-roots'])
    answer.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  return { told, url: `https://localhost:${(server.address() as AddressInfo).port}/` }
}

function writable(t: Test, text: string) {
  const file = join(testFolder(t), 'root.pem')
  const write = (text: string) => writeFileSync(file, text)
  write(text)
  const warned: string[] = []
  const log = { warn: (fields: object) => void warned.push(Object(fields).code) }
  return { file, write, warned, log }
}

t.test('a file of roots', (t) => {
  const both = pem(old) + pem(next)
  for (const [what, text, count] of [
    ['one', pem(old), 1],
    ['two', both, 2],
    [
      'with comments, and lines that end as on Windows',
      `# ours\n${both.replaceAll('\n', '\r\n')}`,
      2,
    ],
    ['empty', '', undefined],
    ['cut short', both.slice(0, -40), undefined],
    ['a certificate that is none', toPem('CERTIFICATE', Buffer.alloc(40)), undefined],
    ['something else', toPem('PUBLIC KEY', Buffer.alloc(40)), undefined],
  ] as const) {
    const { file } = writable(t, text)
    if (count) t.equal(readRoots(file).length, count, what)
    else t.throws(() => readRoots(file), { code: 'CERT_CLIENT_UNTRUSTED', message: file }, what)
  }
  t.throws(() => readRoots(join(testFolder(t), 'none.pem')), {
    message: /cannot be read \(ENOENT\)/,
  })
  t.end()
})

t.test('the file is read again for each request, and says who is trusted', async (t) => {
  const servers = [await serve(t, old), await serve(t, next)]
  const { file, write, log, warned } = writable(t, pem(old))
  const fetch = createTrustingFetch(openRoots(file, log))
  t.teardown(() => fetch.close())
  const reaches = (url: string) =>
    fetch(url).then(
      () => true,
      () => false,
    )
  for (const [text, reached, ids] of [
    [pem(old), [true, false], [old]],
    [pem(old) + pem(next), [true, true], [old, next]],
    [pem(next), [false, true], [next]],
    [pem(next) + pem(old), [true, true], [next, old]],
  ] as const) {
    write(text)
    for (const [index, { url, told }] of servers.entries()) {
      t.equal(await reaches(url), reached[index])
      t.equal(told.pop(), reached[index] ? ids.map(idOf).join() : undefined)
    }
  }
  t.same(warned, [])
})

t.test(
  'while the file is broken, the roots of before are trusted, and it is said once',
  async (t) => {
    const { url } = await serve(t, next)
    const { file, write, log, warned } = writable(t, pem(old) + pem(next))
    const fetch = createTrustingFetch(openRoots(file, log))
    t.teardown(() => fetch.close())
    for (const harm of [() => write(''), () => write(pem(old).slice(9)), () => rmSync(file)]) {
      harm()
      t.equal((await fetch(url)).status, 200)
    }
    t.same(warned, ['CERT_CLIENT_UNTRUSTED'])
    write(pem(old))
    await t.rejects(fetch(url), 'what it then has counts')
    write('')
    await t.rejects(fetch(url), 'also when it is broken again')
    t.equal(warned.length, 2)
    t.throws(() => openRoots(file, log), { code: 'CERT_CLIENT_UNTRUSTED' }, 'at a start')
  },
)

t.test('a file of more roots than a private CA has says nothing', async (t) => {
  const { url, told } = await serve(t, old)
  const fetch = createTrustingFetch(() => Array.from({ length: 65 }, () => readRoots(file)[0]!))
  const { file } = writable(t, pem(old))
  t.teardown(() => fetch.close())
  await fetch(url)
  t.same(told, [undefined])
  t.equal(pemOf(readRoots(file)), pem(old))
})

t.test('no variable of the environment has the service go unverified', async (t) => {
  const { url } = await serve(t, next)
  const { file, log } = writable(t, pem(old))
  t.intercept(process, 'emitWarning', { value: () => {} })
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  const fetch = createTrustingFetch(openRoots(file, log))
  t.teardown(() => fetch.close())
  await t.rejects(fetch(url), { code: 'NET_FETCH_FAILED' })
})
