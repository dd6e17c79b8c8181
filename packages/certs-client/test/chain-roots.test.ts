import { X509Certificate } from 'node:crypto'
import { readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createCross, createIntermediate, createRoot, placeBelow, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { issue } from '../../pki/test/helpers.ts'
import { openChainRoots } from '../src/chain-roots.ts'
import { clientClock } from '../src/clock.ts'
import { ClientError } from '../src/errors.ts'
import { openService } from '../src/open.ts'
import { pemOf } from '../src/roots.ts'
import type { CertService } from '../src/service.ts'
import { readConnection } from '../src/settings.ts'

const DAY = 86_400_000
const now = Date.now()
const make = (commonName: string) => createRoot({ commonName, now })
type Root = Awaited<ReturnType<typeof make>>
const [old, next, other] = (await Promise.all(['Old', 'New', 'Other'].map(make))) as [
  Root,
  Root,
  Root,
]
const A = new X509Certificate(old.certificate)
const B = new X509Certificate(next.certificate)
const C = new X509Certificate(other.certificate)
const pem = (ders: readonly Uint8Array[]) => ders.map((der) => toPem('CERTIFICATE', der)).join('')

/** A chain below a root with its key, also by way of a cross certificate of another root. */
async function chainBelow(root: Root, signer?: Root) {
  const made = await createIntermediate({ root, commonName: 'Intermediate', now })
  const cross = signer && createCross({ signer, root, now })
  const intermediate = cross ? placeBelow(root, made, [cross]) : made
  const { der, key } = issue(intermediate, ['localhost'], { now })
  return { cert: pem([der, ...intermediate.chain]), key: toPem('PRIVATE KEY', key.pkcs8) }
}

function logTo(logged: string[]) {
  const note = (fields: object, message: string) =>
    void logged.push(`${Object(fields).code ?? ''} ${message}`)
  return { info: note, warn: note, error: note }
}

/** What is found by a service that names these roots, or fails by an error. */
async function find(
  chain: string,
  trusted: readonly X509Certificate[],
  named: readonly X509Certificate[] | Error,
) {
  const rootBundle = async () => {
    if (named instanceof Error) throw named
    return named
  }
  const service = { rootBundle } as CertService
  const roots = () => trusted
  const context = { service, roots, clock: clientClock, log: logTo([]), file: undefined }
  const chainRoots = openChainRoots(context)
  await chainRoots.look()
  return chainRoots.find(chain)
}

t.test('the roots of a chain: of those that are trusted, what the service names', async (t) => {
  const [{ cert: old1 }, { cert: new1 }, { cert: crossed }] = [
    await chainBelow(old),
    await chainBelow(next),
    await chainBelow(next, old),
  ]
  const refused = new ClientError('CERT_CLIENT_REFUSED', 'by a proxy')
  for (const [what, chain, trusted, named, found] of [
    ['no roll', old1, [A], [A], [A]],
    ['begun, and the new one is trusted', old1, [A, B], [A, B], [A, B]],
    ['begun, and it is not', old1, [A], [A, B], [A]],
    ['used', crossed, [A, B], [B, A], [A, B]],
    ['used, and the new one is not trusted', crossed, [A], [B, A], [A]],
    ['used, and the old one is not', crossed, [B], [B, A], [B]],
    ['without a cross certificate', new1, [A, B], [B, A], [A, B]],
    ['finished', crossed, [A, B], [B], [B]],
    ['finished, and only the old one is trusted', crossed, [A], [B], [A]],
    ['others are trusted, too', old1, [C, A, B], [A, B], [A, B]],
    ['the service names what nobody trusts', old1, [A], [A, C], [A]],
    ['a chain of another CA', (await chainBelow(other)).cert, [A, B], [A, B], undefined],
    ['which is trusted', (await chainBelow(other)).cert, [A, C], [A, B], [C]],
    ['the service has no root of its own', old1, [A, B], [], [A]],
    ['the service names none', crossed, [A, B], refused, [B]],
    ['and another CA is trusted', old1, [C, A], refused, [A]],
  ] as const)
    t.equal(await find(chain, trusted, named), found && pemOf(found), what)
})

t.test('what fails is no reason to stop', async (t) => {
  await t.rejects(find('', [], new Error('a signal')), 'but for what is no failure')
})

/** A server that names roots, and a client that keeps a file of roots by it. */
async function serve(
  t: Test,
  chain: { readonly cert: string; readonly key: string },
  answer: () => { readonly status?: number; readonly body: string },
) {
  const server = createServer(chain, ({ url }, response) => {
    const { status = 200, body } = url === '/ca/root.pem' ? answer() : { status: 404, body: '{}' }
    response.writeHead(status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  return `https://localhost:${port}`
}

function keep(t: Test) {
  const folder = testFolder(t)
  const file = join(folder, 'root.pem')
  const keyFile = join(folder, 'api.key')
  writeFileSync(file, pemOf([A]))
  writeFileSync(keyFile, 'key-of-the-tests-0123456789', { mode: 0o600 })
  const logged: string[] = []
  const log = logTo(logged)
  /** One run of the client. */
  const look = async (url: string) => {
    const connection = readConnection({ url, ca: file, keyFile }, {})
    const context = { clock: clientClock, log, actionFor: () => undefined }
    await using service = openService(connection, context)
    const roots = service.roots!
    await openChainRoots({ ...context, service, roots, file }).look()
  }
  const age = (ms: number) => {
    const time = (Date.now() - ms) / 1_000
    utimesSync(`${file}.next`, time, time)
  }
  return { look, age, logged, content: () => readFileSync(file, 'utf8') }
}

t.test(
  'whoever answers in place of the service for a while changes no file of roots',
  async (t) => {
    const chain = await chainBelow(old)
    const service = await serve(t, chain, () => ({ body: pemOf([A]) }))
    const { look, age, content } = keep(t)
    const stranger = await serve(t, await chainBelow(other), () => ({ body: pemOf([A, C]) }))
    for (let n = 0; n < 2; n += 1) await look(stranger)
    t.equal(content(), pemOf([A]), 'one that the roots do not verify')

    const thief = await serve(t, chain, () => ({ body: pemOf([A, C]) }))
    await look(thief)
    age(DAY / 2)
    await look(thief)
    t.equal(content(), pemOf([A]), 'one that has stolen a key below the root, for half a day')
    age(2 * DAY)
    await look(service)
    await look(thief)
    age(DAY / 2)
    await look(thief)
    t.equal(content(), pemOf([A]), 'or now and then')
  },
)

t.test('a root that the service names for a day is in the file', async (t) => {
  let body = pemOf([A, B])
  const begun = await serve(t, await chainBelow(old), () => ({ body }))
  const used = await serve(t, await chainBelow(next, old), () => ({ body }))
  const { look, age, content } = keep(t)
  await look(begun)
  age(DAY)
  await look(begun)
  t.equal(content(), pemOf([A, B]))
  body = pemOf([B])
  await look(used)
  age(DAY)
  await look(used)
  t.equal(content(), pemOf([B]))
  await look(begun)
  t.equal(content(), pemOf([B]), 'what the old root verifies counts no more')
})

t.test('what a service or a proxy answers else', async (t) => {
  const chain = await chainBelow(old)
  for (const [answer, code] of [
    [{ status: 404, body: '{"code":"CERT_NOT_FOUND"}' }, 'CERT_CLIENT_UNTRUSTED'],
    [{ status: 302, body: '' }, 'CERT_CLIENT_REFUSED'],
    [{ status: 403, body: 'no' }, 'CERT_CLIENT_REFUSED'],
    [{ status: 503, body: 'no' }, 'CERT_CLIENT_REFUSED'],
    [{ body: '<html>Sign in</html>' }, 'CERT_CLIENT_ANSWER_INVALID'],
    [{ body: '' }, 'CERT_CLIENT_ANSWER_INVALID'],
    [{ body: pemOf([A, B]).slice(0, -30) }, 'CERT_CLIENT_ANSWER_INVALID'],
    [{ body: pemOf([A]) + 'x'.repeat(1 << 20) }, 'CERT_CLIENT_UNREACHABLE'],
  ] as const) {
    const { look, logged, content } = keep(t)
    await look(await serve(t, chain, () => answer))
    t.same(logged, [`${code} the file of roots was not updated`])
    t.equal(content(), pemOf([A]))
  }
})
