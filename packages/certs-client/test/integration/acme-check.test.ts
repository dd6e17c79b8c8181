import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startPebbleServer } from '../../../acme/test/integration/pebble.ts'
import { freePort, makeFolder } from '../../../acme/test/integration/processes.ts'
import { acmeCheck } from '../../src/commands/acme-check.ts'

const KEY = randomBytes(32).toString('base64url')

/** A Pebble that wants a key, and what the command says about it. */
async function stage(t: Test) {
  const server = await startPebbleServer(t, {
    dns: '127.0.0.1:1',
    env: { PEBBLE_WFE_NONCEREJECT: '0' },
    config: {
      externalAccountBindingRequired: true,
      externalAccountMACKeys: { 'web-1': KEY },
      domainBlocklist: ['blocked.test'],
    },
  })
  const folder = makeFolder(t)
  const ca = join(folder, 'root.pem')
  const hmacFile = join(folder, 'web.hmac')
  writeFileSync(ca, server.ca)
  writeFileSync(hmacFile, `${KEY}\n`, { mode: 0o600 })
  const check = async (options: object, json = false, url = server.directoryUrl.href) => {
    const process: Parameters<typeof acmeCheck>[2] = { exitCode: undefined }
    const text = await acmeCheck(url, { ...options, json }, process)
    return { text, exitCode: process.exitCode, levels: text.match(/^(ok|warning|fault)\b/gm) ?? [] }
  }
  return { ...server, ca, hmacFile, check }
}

t.test('a server of RFC 8555 is examined as a client would meet it', async (t) => {
  const { check, ca, hmacFile, directoryUrl } = await stage(t)

  const untrusted = await check({})
  t.match(untrusted, {
    exitCode: 1,
    text: /is not trusted by this system.*\n +Name the file.*--ca/,
  })
  t.same(untrusted.levels, ['fault'], 'nothing is asked of a server that is not trusted')

  const read = await check({ ca })
  t.equal(read.exitCode, undefined, read.text)
  t.match(read.text, /^ok {7}TLSv1\.\d; the certificate leads to CN=\w/)
  t.match(read.text, `Give the root to each client. certbot: REQUESTS_CA_BUNDLE=${ca}`)
  t.match(read.text, 'an account needs a key of the server')
  t.match(read.text, 'newNonce gives nonces')
  t.match(read.text, 'errors are problem documents with a new nonce')
  t.match(read.text, 'both clocks agree')
  t.notMatch(read.text, 'an account is made', 'without a key or a name nothing is made')

  const tried = await check({ ca, kid: 'web-1', hmacFile, name: ['a.test', '*.b.test'] })
  t.equal(tried.exitCode, undefined, tried.text)
  t.match(tried.text, 'an account is made by web-1')
  t.match(tried.text, /the order for (?=.*\*\.b\.test)(?=.*a\.test).+ is pending/)
  t.match(tried.text, /a\.test is pending, to be proved by .*http-01/)
  t.match(tried.text, 'the account is deactivated again')
  t.notMatch(tried.text, KEY)

  const refused = await check({ ca, kid: 'web-1', hmacFile, name: ['blocked.test'] }, true)
  const { findings, ...counts } = JSON.parse(refused.text)
  t.match(counts, { url: directoryUrl.href, faults: 1 })
  t.match(findings.at(-1), { level: 'fault', text: /^the CA says: .*blocked\.test/, advice: /./ })
  t.equal(refused.exitCode, 1)

  for (const options of [{ name: ['a.test'] }, { kid: 'web.2', hmacFile }])
    t.match(await check({ ca, ...options }), { exitCode: 1, text: /^fault {4}the CA says: /m })
})

t.test('what cannot be reached or is wrong is a fault or a wrong use', async (t) => {
  const { check, ca, hmacFile } = await stage(t)
  const port = await freePort()
  const gone = await check({}, false, `https://127.0.0.1:${port}/acme/directory`)
  t.match(gone, {
    exitCode: 1,
    text: /^fault {4}no TLS connection to 127\.0\.0\.1: ECONNREFUSED\n +\w/,
  })

  const plain = createServer((_, reply) => reply.writeHead(404).end())
  await new Promise<void>((resolve) => plain.listen(port, '127.0.0.1', resolve))
  t.teardown(() => plain.close())
  t.match(await check({}, false, `http://127.0.0.1:${port}/acme`), {
    exitCode: 1,
    text: /^fault {4}the URL is not https\n(?:.*\n)*fault {4}there is no directory: the status is 404/m,
  })
  t.match(await check({}, false, `https://127.0.0.1:${port}/acme`), { exitCode: 1, text: /no TLS/ })

  await t.rejects(check({ ca, kid: 'web-1' }), /need each other/)
  await t.rejects(check({ ca }, false, 'http://certs.test/'), /plain http is refused/)
  writeFileSync(hmacFile, 'not a key')
  await t.rejects(check({ ca, kid: 'web-1', hmacFile }), { code: 'CERT_CLIENT_CREDENTIALS' })
})
