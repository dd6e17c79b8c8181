import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { renewalId } from '@gatehouse/acme/server'
import { fromPem, generateP256, type KeyPair, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { newSchema } from '../../../../packages/cert-store/test/helpers/engines.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { buildApp } from '../../src/app.ts'
import { AcmeClient } from '../helpers/acme-client.ts'
import { PSK } from '../helpers/acme-service.ts'
import { configure, KEY } from '../helpers/app.ts'

const run = promisify(execFile)
const domain = 'app.example.com'
const names = [domain, 'www.example.com']

/** A service by the clock of the system, as OpenSSL has no other. */
async function startService(t: Test, folder: string, storage: object) {
  const config = await configure(folder, {
    server: { tls: 'off' },
    storage: { masterKey: randomBytes(32).toString('base64'), ...storage },
    auth: { psk: PSK },
  })
  const { log } = quietLog(t)
  const app = await buildApp(config, { log })
  t.teardown(() => app.close())
  const call = async (method: 'DELETE' | 'GET' | 'POST', url: string, payload?: object) => {
    const headers = { authorization: `APIKey ${KEY}` }
    return app.inject({ method, url, headers, ...(payload && { payload }) })
  }
  const issue = async (body: object) =>
    fromPem((await call('POST', '/api/certificate', body)).json().certificate, 'CERTIFICATE')
  const clientOf = async (caller: string) => {
    const client = new AcmeClient(app)
    await client.register((await call('POST', '/api/acme/key', { caller })).json())
    return client
  }
  return { call, issue, clientOf }
}

const folder = testFolder(t)
const server = await startPostgres(t)
for (const [engine, storage] of Object.entries({
  SQLite: { path: 'data' },
  PostgreSQL: { url: server.url, schema: newSchema() },
}))
  t.test(`a name is revoked, and OpenSSL refuses all that it ever had: ${engine}`, async (t) => {
    const { call, issue, clientOf } = await startService(t, folder, storage)
    const [web, operator] = [await clientOf('web'), await clientOf('operator')]
    const compromised: KeyPair[] = []
    const ever: Buffer[][] = []
    const obtain = async (client: AcmeClient, members: object = {}, of = names) => {
      compromised.push(generateP256())
      ever.push(await client.obtain(of, members, compromised.at(-1)))
      return ever.at(-1)?.[0] as Buffer
    }
    // One machine that renews with a new key each time, another one, and one of another caller.
    const first = await obtain(web)
    const second = await obtain(web, { replaces: renewalId(first) })
    await obtain(web, { replaces: renewalId(second) })
    await obtain(web, {}, names.toReversed())
    await obtain(operator)
    ever.push(await issue({ domain, names }))
    await call('DELETE', `/api/certificate/${domain}`)
    ever.push(await issue({ domain, names }))
    ever.push(await issue({ domain, names, csr: makeCsr({ names }) }))
    ever.push(await issue({ domain, names, keyType: 'rsa2048' }))
    const other = await issue({ domain: 'other.example.com' })

    const answerOf = async (chain: readonly Buffer[]) => {
      const write = async (name: string, content: string | Buffer) => {
        writeFileSync(join(folder, name), content)
        return name
      }
      const [leaf = Buffer.of(), ...above] = chain
      const crl = await call('GET', '/ca/crl.der')
      const files = {
        root: await write('root.pem', (await call('GET', '/ca/root.pem')).payload),
        crl: await write('crl.pem', toPem('X509 CRL', crl.rawPayload)),
        above: await write('above.pem', above.map((der) => toPem('CERTIFICATE', der)).join('')),
        leaf: await write('leaf.pem', toPem('CERTIFICATE', leaf)),
      }
      const lists = ['-crl_check', '-CRLfile', files.crl]
      const args = ['-x509_strict', ...lists, '-CAfile', files.root, '-untrusted', files.above]
      const said = await run('openssl', ['verify', ...args, files.leaf], { cwd: folder }).catch(
        (error: { stderr: string }) => error,
      )
      return 'stdout' in said && !('code' in said) ? said.stdout : said.stderr
    }
    for (const chain of [...ever, other]) t.match(await answerOf(chain), /leaf.pem: OK/)

    const body = { domain, reason: 'keyCompromise' }
    const revoked = await call('POST', '/api/certificate/revoke', body)
    t.equal(revoked.json().serialNumbers.length, ever.length)
    for (const chain of ever) t.match(await answerOf(chain), /certificate revoked/)
    t.match(await answerOf(other), /leaf.pem: OK/)
    for (const key of compromised) {
      const answer = await web.finalize(await web.order(names), names, key)
      t.equal(answer.body.type, 'urn:ietf:params:acme:error:badPublicKey')
    }
    t.equal((await issue({ domain, names })).length, ever[0]?.length, 'a new one may be had')
  })
