import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createSecureContext } from 'node:tls'
import { createFetch } from '@gatehouse/net'
import { createRoot, createTruststore, fromPem, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import {
  DAY,
  leapClock,
  type Running,
  start,
} from '../../../services/cert-service/test/helpers/app.ts'
import { certificatesIn } from '../src/certificate.ts'
import { openChainRoots } from '../src/chain-roots.ts'
import { getOnce } from '../src/keep.ts'
import { clusterRoot, openSecret } from '../src/secret.ts'
import { clientOf } from './helpers/client.ts'

const PATH = '/api/v1/namespaces/shop/secrets/web-tls'

interface Secret {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> }
  readonly type: string
  readonly data: Readonly<Record<string, string>>
}

/** What the API server of a cluster does with one Secret, over TLS. */
async function startApiServer(t: Test, running: Running) {
  const { body } = await running.call('POST', '/api/certificate', { domain: '127.0.0.1' })
  const state: { secret?: Secret; refusal?: number } = {}
  const asked: string[] = []
  const server = createServer(
    { cert: body.certificate, key: body.privateKey },
    async (request, response) => {
      const { method, url = '', headers } = request
      asked.push(`${method} ${url} ${headers.authorization}`)
      const sent = await text(request)
      const answer = (status: number, value: unknown) => {
        response
          .writeHead(status, { 'content-type': 'application/json' })
          .end(JSON.stringify(value))
      }
      if (state.refusal)
        return answer(state.refusal, { kind: 'Status', message: 'secrets "web-tls" is forbidden' })
      if (!url.startsWith(PATH)) return answer(404, {})
      if (method === 'PATCH') {
        if (headers['content-type'] !== 'application/apply-patch+yaml') return answer(415, {})
        const isNew = state.secret === undefined
        state.secret = JSON.parse(sent)
        return answer(isNew ? 201 : 200, state.secret)
      }
      return state.secret ? answer(200, state.secret) : answer(404, { kind: 'Status' })
    },
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const account = join(running.folder, 'account')
  mkdirSync(account)
  writeFileSync(join(account, 'token'), 'pod-1\n')
  const root = running.service.ca.root() as Uint8Array
  writeFileSync(join(account, 'ca.crt'), toPem('CERTIFICATE', root))
  return { state, asked, account, port: (server.address() as AddressInfo).port }
}

t.test('a Secret is created, kept while nothing is due, and renewed', async (t) => {
  // TLS lives by the clock of the machine.
  const clock = leapClock(Date.now())
  const running = await start(t, {}, { clock })
  const { state, asked, account, port } = await startApiServer(t, running)
  const fetch = createFetch({ ca: clusterRoot(account) })
  t.teardown(fetch.close)
  const { get: base, logged } = clientOf(running)
  const foreign = await createRoot({ commonName: 'Another', now: clock.now() })
  const other = toPem('CERTIFICATE', foreign.certificate)
  const root = toPem('CERTIFICATE', running.service.ca.root() as Uint8Array)
  const chainRoots = openChainRoots({
    ...base,
    roots: () => certificatesIn(`${other}# ours\n${root}${other}`),
    file: undefined,
  })
  const place = openSecret({
    ...{ namespace: 'shop', name: 'web-tls', account, fetch, log: base.log },
    chainRoots,
    url: new URL(`https://127.0.0.1:${port}`),
  })
  const get = { ...base, place, chainRoots }
  t.equal(await place.read(), undefined)
  await getOnce(get)
  t.match(state.secret, {
    ...{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls' },
    metadata: {
      name: 'web-tls',
      namespace: 'shop',
      annotations: { 'gatehouse-certs/renew-at': /Z$/ },
    },
  })
  t.equal(logged[0]?.path, 'shop/web-tls', 'by a name that the log does not redact')
  const first = state.secret as Secret
  const leaf = new X509Certificate(Buffer.from(first.data['tls.crt'] ?? '', 'base64'))
  t.equal(leaf.checkHost('a.test'), 'a.test')
  t.ok(await place.read(), 'key and chain belong together')
  t.equal(Buffer.from(first.data['ca.crt'] ?? '', 'base64').toString(), root)
  t.equal(asked.at(-2), `PATCH ${PATH}?fieldManager=gatehouse-certs&force=true Bearer pod-1`)

  asked.length = 0
  writeFileSync(join(account, 'token'), 'pod-2')
  await getOnce(get)
  t.same(asked, [`GET ${PATH} Bearer pod-2`], 'the token is read anew')

  await clock.advance(5 * DAY)
  await getOnce(get)
  t.not(state.secret?.data['tls.crt'], first.data['tls.crt'])

  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const wrong = privateKey.export({ format: 'pem', type: 'pkcs8' })
  const harmed = {
    ...(state.secret as Secret).data,
    'tls.key': Buffer.from(wrong).toString('base64'),
  }
  state.secret = { ...(state.secret as Secret), data: harmed }
  await getOnce(get)
  t.ok(await place.read(), 'a Secret that somebody changed is mended')
  state.refusal = 403
  await t.rejects(getOnce(get), {
    code: 'CERT_CLIENT_SECRET_FAILED',
    message: 'the Secret shop/web-tls: secrets "web-tls" is forbidden',
  })
})

t.test('ca.crt has the roots that are trusted of those that the service names', async (t) => {
  const running = await start(t, {}, { clock: leapClock(Date.now()) })
  const { state, asked, account, port } = await startApiServer(t, running)
  const fetch = createFetch({ ca: clusterRoot(account) })
  t.teardown(fetch.close)
  const { get: base } = clientOf(running)
  const bundle = async () => certificatesIn((await running.app.inject('/ca/root.pem')).body)
  let trusted = await bundle()
  const chainRoots = openChainRoots({ ...base, roots: () => trusted, file: undefined })
  const place = openSecret({
    ...{ namespace: 'shop', name: 'web-tls', account, fetch, log: base.log },
    ...{ chainRoots, url: new URL(`https://127.0.0.1:${port}`) },
  })
  const get = { ...base, place, chainRoots }
  const roll = async (action: string, more: object = {}) =>
    t.match(
      await running.call('POST', '/api/ca/roll', { action, ...more }),
      { status: 200 },
      action,
    )
  const look = async (what: string, roots: readonly X509Certificate[], isNew: boolean) => {
    asked.length = 0
    await getOnce(get)
    const caCrt = Buffer.from(state.secret?.data['ca.crt'] ?? '', 'base64').toString()
    t.equal(caCrt, roots.join(''), what)
    t.equal(
      asked.some((line) => line.startsWith('PATCH')),
      isNew,
      what,
    )
  }
  const [old] = trusted as [X509Certificate]
  await look('at first', [old], true)
  await roll('begin')
  await look('begun', [old], false)
  trusted = await bundle()
  const [, next] = trusted as [X509Certificate, X509Certificate]
  await look('the new one is trusted', [old, next], true)
  await look('nothing', [old, next], false)
  await roll('use', { now: true })
  await running.clock.advance(5 * DAY)
  await look('used and renewed', [old, next], true)
  const subjects = certificatesIn(
    Buffer.from(state.secret?.data['tls.crt'] ?? '', 'base64').toString(),
  ).map(({ subject }) => subject)
  t.equal(subjects.length, 3, 'the chain has the cross certificate')
  await roll('finish', { force: true })
  await look('finished', [next], true)
  trusted = [next]
  await look('the old one is no longer trusted', [next], false)
})

t.test('PKCS#12 files are in the Secret, and follow their password', async (t) => {
  const clock = leapClock(Date.now())
  const running = await start(t, {}, { clock })
  const { state, asked, account, port } = await startApiServer(t, running)
  const fetch = createFetch({ ca: clusterRoot(account) })
  t.teardown(fetch.close)
  const { get: base } = clientOf(running)
  const passwordFile = join(running.folder, 'password')
  writeFileSync(passwordFile, 'first')
  const chainRoots = { find: () => clusterRoot(account), areNamed: () => true }
  const place = openSecret({
    ...{ namespace: 'shop', name: 'web-tls', account, fetch, log: base.log },
    chainRoots,
    pkcs12: { passwordFile, friendlyName: 'a.test' },
    url: new URL(`https://127.0.0.1:${port}`),
  })
  const get = { ...base, place }
  const contentOf = (file: string) => Buffer.from(state.secret?.data[file] ?? '', 'base64')
  const writes = () => asked.filter((line) => line.startsWith('PATCH')).length
  let patched = 0
  const steps: readonly [what: string, step: () => unknown, isNew: boolean][] = [
    ['the first time', () => {}, true],
    ['nothing', () => {}, false],
    ['the password', () => writeFileSync(passwordFile, 'second'), true],
    [
      'somebody took one away',
      () => {
        const { 'truststore.p12': _, ...data } = state.secret?.data ?? {}
        state.secret = { ...(state.secret as Secret), data }
      },
      true,
    ],
    ['nothing', () => {}, false],
    ['the certificate', () => clock.advance(5 * DAY), true],
  ]
  for (const [what, step, isNew] of steps) {
    await step()
    await getOnce(get)
    patched += isNew ? 1 : 0
    t.equal(writes(), patched, what)
    const passphrase = readFileSync(passwordFile, 'utf8')
    const pfx = contentOf('keystore.p12')
    t.doesNotThrow(() => createSecureContext({ pfx, passphrase }), what)
    const trusted = createTruststore({ roots: fromPem(clusterRoot(account)), password: passphrase })
    t.ok(contentOf('truststore.p12').equals(trusted), what)
  }
  writeFileSync(passwordFile, '')
  await t.rejects(getOnce(get), { code: 'CERT_CLIENT_CREDENTIALS' })
  t.equal(writes(), patched)
})

t.test('outside of a pod there is no root of the cluster', (t) => {
  t.throws(() => clusterRoot(testFolder(t)), { code: 'CERT_CLIENT_SECRET_FAILED' })
  t.end()
})
