import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import {
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { KEY, start } from '../../../../services/cert-service/test/helpers/app.ts'
import { probeName } from '../../src/commands/probe.ts'

const HOUR = 3_600_000
const now = Date.now()
const rootCa = await createRoot({ commonName: 'Root', now: now - 99 * HOUR })
const issuingCa = await createIntermediate({ root: rootCa, commonName: 'Intermediate', now })
const old = { root: rootCa, now: now - 50 * HOUR, lifetimeMs: 9 * HOUR }
const endedCa = await createIntermediate({ ...old, commonName: 'Intermediate' })
const key = generateP256()
const pem = (der: Uint8Array) => toPem('CERTIFICATE', der)

/** A certificate for this machine that begins and ends so many hours from now. */
function issue(begins = -1, ends = 1, name = 'localhost', issuer = issuingCa): string {
  return pem(
    createLeafSigner(issuer).sign({
      ...{ spki: key.spki, keyType: key.type, names: [parseName(name)] },
      serial: createSerial(now),
      ...{ notBefore: now + begins * HOUR, notAfter: now + ends * HOUR },
    }),
  )
}

async function serve(t: Test, cert: string, privateKey = toPem('PRIVATE KEY', key.pkcs8)) {
  const server = createServer({ key: privateKey, cert }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

async function look(text: string, options = {}, { json = true, env = {} } = {}) {
  const process: Pick<NodeJS.Process, 'exitCode'> = { exitCode: undefined }
  let warned = ''
  const stderr = { write: (part: string) => (warned += part) }
  const io = { env, stderr, actionFor: () => undefined }
  const out = await probeName(text, { ...options, json }, io, process)
  return { out, exitCode: process.exitCode, warned }
}

const chain = (leaf: string) => leaf + pem(issuingCa.certificate)

t.test('what is served is described, with all that is wrong with it', async (t) => {
  const ca = join(testFolder(t), 'root.pem')
  writeFileSync(ca, pem(rootCa.certificate))
  const UNKNOWN =
    'it leads to no known root: the server lacks a valid intermediate, or --ca the root'
  const table: readonly [
    what: string,
    cert: string,
    options: object,
    problems: readonly string[],
  ][] = [
    ['all is well', chain(issue()), { ca }, []],
    ['no file with the root', chain(issue()), {}, [UNKNOWN]],
    ['no intermediate', issue(), { ca }, [UNKNOWN]],
    [
      'an intermediate that has ended',
      issue(-1, 1, 'localhost', endedCa) + pem(endedCa.certificate),
      { ca },
      [UNKNOWN],
    ],
    ['another name', chain(issue(-1, 1, 'a.test')), { ca }, ['it is not for localhost']],
    ['an end', chain(issue(-2, -1)), { ca }, ['it has ended']],
    ['a beginning', chain(issue(1, 2)), { ca }, ['it is not valid yet']],
    ['much', issue(-2, -1, 'a.test'), { ca }, ['it is not for localhost', 'it has ended', UNKNOWN]],
  ]
  for (const [what, cert, options, problems] of table) {
    const { out, exitCode } = await look(`localhost:${await serve(t, cert)}`, options)
    const served = JSON.parse(out)
    t.strictSame(served.problems, problems, what)
    t.equal(exitCode, problems.length > 0 ? 1 : undefined, what)
    t.match(served, {
      address: '127.0.0.1',
      issuer: 'CN=Intermediate',
      fingerprint256: /^[0-9a-f]{64}$/,
      serialNumber: /^[0-9a-f]+$/,
      notBefore: /Z$/,
      notAfter: /Z$/,
      newest: 'unknown',
    })
  }
})

t.test('people read lines', async (t) => {
  const port = await serve(t, chain(issue()))
  const { out } = await look(`127.0.0.1:${port}`, {}, { json: false })
  t.match(out, /^address {9}127\.0\.0\.1\nnames {11}DNS:localhost\nissuer {10}CN=Intermediate\n/)
  t.match(out, /\nserial number {3}[0-9a-f]+\n/)
  t.match(out, /\nproblems {8}it is not for 127\.0\.0\.1; it leads to no known root/)
  t.match(await look('127.0.0.1:1', {}, { json: false }), {
    exitCode: 1,
    out: 'address   127.0.0.1\nproblems  127.0.0.1:1 cannot be reached (ECONNREFUSED)\n',
  })
})

t.test('a service says whether it is the newest', async (t) => {
  const { app, service, folder, call } = await start(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const url = `http://localhost:${(app.server.address() as AddressInfo).port}`
  const keyFile = join(folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const ca = join(folder, 'root.pem')
  writeFileSync(ca, pem(service.ca.root() as Uint8Array))
  const { body } = await call('POST', '/api/certificate', { domain: 'localhost' })
  const port = await serve(t, body.certificate, body.privateKey)
  const about = async (options = {}) => {
    const result = await look(`localhost:${port}`, { url, keyFile, ca, ...options })
    const { newest, problems } = JSON.parse(result.out)
    return { newest, problems: problems.join(), ...result }
  }
  t.match(await about(), { newest: 'yes', warned: '' })
  await call('POST', '/api/certificate/revoke', { domain: 'localhost' })
  t.match(await about(), { newest: 'unknown' }, 'there is none')
  await call('POST', '/api/certificate', { domain: 'localhost' })
  t.match(await about(), {
    newest: 'no',
    problems: /not the newest of the service: reload/,
    exitCode: 1,
  })
  t.match(await about({ keyFile: undefined }), { newest: 'unknown', warned: '' }, 'nobody is asked')
  t.match(
    await about({ url: 'http://127.0.0.1:1' }),
    { newest: 'unknown', warned: /^warning: the service does not tell the newest: .*127\.0\.0\.1/ },
    'it is away',
  )
})

t.test('what names no server is refused', async (t) => {
  for (const [text, options] of [
    ['', {}],
    [':443', {}],
    ['a b', {}],
    ['*.a.test', {}],
    ['a.test:99999', {}],
    ['a.test', { protocol: 'http' }],
  ] as const)
    await t.rejects(
      look(text, options),
      { name: 'Error', message: /is no port|name the server/ },
      text,
    )
  await t.rejects(look('nowhere.invalid'), {
    code: 'CERT_CLIENT_NOT_SERVED',
    message: 'nowhere.invalid has no address here (ENOTFOUND)',
    action: /^Check the name, and what the DNS server/,
  })
  await t.rejects(look('localhost:1', { ca: '/none' }), { code: 'CERT_CLIENT_UNTRUSTED' })
})
