import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createRoot, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { acmeAccount, acmeAccounts } from '../../src/commands/acme-accounts.ts'
import { revoke } from '../../src/commands/certificates.ts'

const KEY = {
  kid: 'web-1',
  // A hyphen at the begin is what programs take for an option.
  hmacKey: '-2VjcmV0LW9mLXRoZS10ZXN0cy0wMTIzNDU2Nzg5MDE',
  directory: 'https://certs.test:7401/acme/directory',
  algorithm: 'HS256',
}
const ACCOUNT = {
  id: '7',
  caller: 'web',
  thumbprint: 'LPJNul-wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ',
  status: 'valid',
  client: 'Caddy/2.11.9',
  createdAt: '2030-01-01T00:00:00Z',
  usedAt: '2030-01-02T03:04:05Z',
  remoteAddress: '10.0.0.7',
}

/** A service that answers with `key` and `accounts`, and what it was asked. */
async function stage(
  t: Test,
  { key = KEY, accounts = [ACCOUNT] }: { key?: object; accounts?: object[] } = {},
) {
  const asked: unknown[] = []
  const app = fastify()
  app.post('/api/acme/key', async ({ body }) => {
    asked.push(body)
    return key
  })
  app.get('/api/acme/accounts', async () => ({ accounts }))
  app.delete<{ Params: { id: string } }>('/api/acme/accounts/:id', async ({ params }, reply) => {
    asked.push(params.id)
    if (params.id === '7') return reply.code(204).send()
    const problem = { code: 'CERT_NOT_FOUND', detail: 'there is no such account' }
    return reply.code(404).type('application/problem+json').send(problem)
  })
  app.post('/api/acme/accounts/adopt', async ({ body }) => {
    asked.push(body)
    return { adopted: 2 }
  })
  app.post<{ Params: { id: string } }>(
    '/api/acme/accounts/:id/revoke',
    async ({ params, body }, reply) => {
      asked.push([params.id, body])
      const revoked = { account: params.id, reason: 'unspecified' }
      const failed = [{ serialNumber: 'b2', issuer: 'ca', detail: 'it is away' }]
      if (asked.length === 1)
        return reply.code(202).send({ ...revoked, serialNumbers: ['a1'], notRevoked: failed })
      return { ...revoked, serialNumbers: ['b2'] }
    },
  )
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const folder = testFolder(t)
  const keyFile = join(folder, 'api.key')
  writeFileSync(keyFile, 'key-of-the-tests-0123456789', { mode: 0o600 })
  const { port } = app.server.address() as AddressInfo
  const options = { url: `http://127.0.0.1:${port}`, keyFile }
  const io = (isTTY: boolean, env = {}) => ({
    ...{ env, stdout: { isTTY }, stderr: { write() {} }, actionFor: () => undefined },
  })
  return { asked, folder, options, io }
}

t.test('a key is asked for a caller, for oneself, or anew', async (t) => {
  const { asked, options, io } = await stage(t)
  const rows: [caller: string, more: object, body: object][] = [
    ['', {}, {}],
    ['web', {}, { caller: 'web' }],
    ['web', { renew: true }, { caller: 'web', renew: true }],
    ['', { renew: true, keep: ['7', '8'] }, { renew: true, keep: ['7', '8'] }],
  ]
  for (const [caller, more, body] of rows) {
    const text = await acmeAccount(caller, { ...options, ...more }, io(false))
    t.strictSame(JSON.parse(text), KEY)
    t.strictSame(asked.pop(), body)
  }
  t.throws(() => acmeAccount('', { ...options, keep: ['7'] }, io(false)), /--keep needs --renew/)
  t.strictSame(asked, [])
})

t.test('a person gets lines to paste for each client', async (t) => {
  const { folder, options, io } = await stage(t)
  const root = join(folder, 'root.pem')
  const { certificate } = await createRoot({ commonName: 'Root', now: Date.now() })
  writeFileSync(root, toPem('CERTIFICATE', certificate))
  const text = await acmeAccount('web', options, io(true, { GATEHOUSE_CA: root }))
  t.match(text, `kid        web-1\nkey        ${KEY.hmacKey}\ndirectory  ${KEY.directory}\n`)
  t.match(text, `--eab-kid=web-1 --eab-hmac-key=${KEY.hmacKey}`)
  t.match(text, `REQUESTS_CA_BUNDLE=${root} certbot`)
  t.match(
    text,
    `LEGO_CA_CERTIFICATES=${root} lego --server ${KEY.directory} --eab --kid=web-1 --hmac=${KEY.hmacKey}`,
  )
  t.match(text, `acme_eab {\n    key_id web-1\n    mac_key ${KEY.hmacKey}\n  }`)
  const [, traefik = ''] = text.split(/^Traefik.*\n/m)
  t.match(parse(traefik).acme, {
    caServer: KEY.directory,
    caCertificates: [root],
    eab: { kid: 'web-1', hmacEncoded: KEY.hmacKey },
  })
})

t.test('a root that is not named is where the guides put it', async (t) => {
  const { options, io } = await stage(t)
  t.match(await acmeAccount('', options, io(true)), 'acme_ca_root /etc/gatehouse/root.pem')
})

t.test('nothing is printed that a shell or a configuration would obey', async (t) => {
  for (const wrong of [
    { kid: 'web-1; rm -rf /' },
    { kid: '-web-1' },
    { hmacKey: '$(id)01234567890123456789' },
    { hmacKey: 'too-short' },
    { directory: 'https://certs.test/`id`' },
    { directory: 'file:///etc/passwd' },
  ]) {
    const { options, io } = await stage(t, { key: { ...KEY, ...wrong } })
    for (const isTTY of [true, false])
      await t.rejects(acmeAccount('web', options, io(isTTY)), {
        code: 'CERT_CLIENT_ANSWER_INVALID',
      })
  }
})

t.test('accounts are listed and ended', async (t) => {
  const { id, caller, thumbprint, status, createdAt } = ACCOUNT
  const unused = { ...{ id: '8', caller, thumbprint, status, createdAt }, client: null }
  const { asked, options, io } = await stage(t, { accounts: [ACCOUNT, unused] })
  t.equal(
    await acmeAccounts('', options, io(true)),
    [
      `ID  CALLER  STATUS  CLIENT        CREATED           LAST USED         FROM      THUMBPRINT`,
      `${id}   web     valid   Caddy/2.11.9  2030-01-01 00:00  2030-01-02 03:04  10.0.0.7  ${thumbprint}`,
      `8   web     valid                 2030-01-01 00:00                              ${thumbprint}`,
      '',
    ].join('\n'),
  )
  t.strictSame(JSON.parse(await acmeAccounts('', options, io(false))), [ACCOUNT, unused])
  t.equal(await acmeAccounts('', { ...options, end: '7' }, io(true)), 'the account 7 is ended\n')
  await t.rejects(acmeAccounts('', { ...options, end: '../7' }, io(true)), {
    code: 'CERT_NOT_FOUND',
  })
  t.strictSame(asked, ['7', '../7'])

  const none = await stage(t, { accounts: [] })
  t.equal(
    await acmeAccounts('', none.options, none.io(true)),
    'There is no account that you may see.\n',
  )
})

t.test('accounts are taken over', async (t) => {
  const { asked, options, io } = await stage(t)
  for (const only of [undefined, ['7', '8']]) {
    const of = { ...options, adopt: 'web', only }
    t.equal(await acmeAccounts('', of, io(true)), 'accounts of web taken over: 2\n')
    t.strictSame(JSON.parse(await acmeAccounts('', of, io(false))), { adopted: 2 })
    const body = { caller: 'web', ...(only && { ids: only }) }
    t.strictSame(asked.splice(0), [body, body])
  }
  t.throws(() => acmeAccounts('', { ...options, only: ['7'] }, io(true)), /--only needs --adopt/)
  t.throws(() => acmeAccounts('', { ...options, adopt: 'web', end: '7' }, io(true)), /exclude/)
  t.strictSame(asked, [])
})

t.test('an account is ended with its certificates', async (t) => {
  const { asked, options, io } = await stage(t)
  const of = { ...options, account: '7', reason: 'privilegeWithdrawn' }
  t.equal(
    await revoke('', of, io(true)),
    'the account 7 is ended\n7 a1 is revoked\n7 b2 is revoked\n',
  )
  const body = { reason: 'privilegeWithdrawn' }
  t.strictSame(asked, [
    ['7', body],
    ['7', body],
  ])
  asked.length = 5
  t.match(JSON.parse(await revoke('', { ...options, account: '7' }, io(false))), {
    account: '7',
    serialNumbers: ['b2'],
  })
  t.strictSame(asked.at(-1), ['7', {}])
  const none = /either NAME or --account ID/
  t.throws(() => revoke('', options, io(true)), none)
  t.throws(() => revoke('app.example.com', of, io(true)), none)
  t.throws(() => revoke('', { ...of, reason: 'theft' }, io(true)), /--reason is one of/)
})
