import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createRoot, toPem } from '@gatehouse/pki'
import { localTime } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { acmeAccount, acmeAccounts } from '../../src/commands/acme-accounts.ts'
import type { ClientCommand } from '../../src/commands/ask.ts'
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
  /** Runs a command, and gives what it prints. */
  const print = async (command: ClientCommand, words: readonly string[], more = {}, env = {}) => {
    const io = { env, stderr: { write() {} }, actionFor: () => undefined }
    return (await Array.fromAsync(command(words, { ...options, ...more }, io))).join('')
  }
  return { asked, folder, print }
}

t.test('a key is asked for a caller, for oneself, or anew', async (t) => {
  const { asked, print } = await stage(t)
  const rows: [words: string[], more: object, body: object][] = [
    [[], {}, {}],
    [['web'], {}, { caller: 'web' }],
    [['web'], { renew: true }, { caller: 'web', renew: true }],
    [[], { renew: true, keep: ['7', '8'] }, { renew: true, keep: ['7', '8'] }],
  ]
  for (const [words, more, body] of rows) {
    t.strictSame(JSON.parse(await print(acmeAccount, words, { ...more, json: true })), KEY)
    t.strictSame(asked.pop(), body)
  }
  await t.rejects(print(acmeAccount, [], { keep: ['7'] }), { message: /--keep needs --renew/ })
  t.strictSame(asked, [])
})

t.test('a person gets lines to paste for each client', async (t) => {
  const { folder, print } = await stage(t)
  const root = join(folder, 'root.pem')
  const { certificate } = await createRoot({ commonName: 'Root', now: Date.now() })
  writeFileSync(root, toPem('CERTIFICATE', certificate))
  const text = await print(acmeAccount, ['web'], {}, { GATEHOUSE_CA: root })
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
  const { print } = await stage(t)
  t.match(await print(acmeAccount, []), 'acme_ca_root /etc/gatehouse/root.pem')
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
    const { print } = await stage(t, { key: { ...KEY, ...wrong } })
    for (const json of [true, false])
      await t.rejects(print(acmeAccount, ['web'], { json }), { code: 'CERT_CLIENT_ANSWER_INVALID' })
  }
})

t.test('accounts are listed and ended', async (t) => {
  const { id, caller, thumbprint, status, createdAt } = ACCOUNT
  const unused = { ...{ id: '8', caller, thumbprint, status, createdAt }, client: null }
  const { asked, print } = await stage(t, { accounts: [unused, ACCOUNT] })
  const [created, used] = [localTime(createdAt), localTime(ACCOUNT.usedAt)]
  t.equal(
    await print(acmeAccounts, []),
    [
      `ID  CALLER  STATUS  CLIENT        CREATED                    LAST USED                  FROM      THUMBPRINT`,
      `${id}   web     valid   Caddy/2.11.9  ${created}  ${used}  10.0.0.7  ${thumbprint}`,
      `8   web     valid                 ${created}                                       ${thumbprint}`,
      '',
    ].join('\n'),
  )
  const lines = (await print(acmeAccounts, [], { json: true })).trimEnd().split('\n')
  t.strictSame(
    lines.map((line) => JSON.parse(line)),
    [ACCOUNT, unused],
  )
  t.match(await print(acmeAccounts, [], { account: ['8'] }), /^ID .*\n8 .*\n$/)
  const end = (account: string[]) => print(acmeAccounts, [], { end: true, account })
  t.equal(await end(['7']), 'the account 7 is ended\n')
  await t.rejects(end(['../7']), { code: 'CERT_NOT_FOUND' })
  await t.rejects(end(['8', '7', '9']), {
    errors: [
      { code: 'CERT_NOT_FOUND', message: '8: there is no such account' },
      { code: 'CERT_NOT_FOUND', message: '9: there is no such account' },
    ],
  })
  t.strictSame(asked, ['7', '../7', '8', '7', '9'], 'the others are done')

  const none = await stage(t, { accounts: [] })
  t.match(await none.print(acmeAccounts, []), /^Nothing is listed: .*\n$/)
  t.equal(await none.print(acmeAccounts, [], { json: true }), '')
})

t.test('accounts are taken over', async (t) => {
  const { asked, print } = await stage(t)
  for (const account of [undefined, ['7', '8']]) {
    const more = { adopt: 'web', account }
    t.equal(await print(acmeAccounts, [], more), 'accounts of web taken over: 2\n')
    t.strictSame(JSON.parse(await print(acmeAccounts, [], { ...more, json: true })), { adopted: 2 })
    const body = { caller: 'web', ...(account && { ids: account }) }
    t.strictSame(asked.splice(0), [body, body])
  }
  const message = '--end needs --account ID, and does not go with --adopt'
  await t.rejects(print(acmeAccounts, [], { end: true }), { message })
  await t.rejects(print(acmeAccounts, [], { end: true, account: ['7'], adopt: 'web' }), { message })
  t.strictSame(asked, [])
})

t.test('an account is ended with its certificates', async (t) => {
  const { asked, print } = await stage(t)
  const more = { account: ['7'], reason: 'privilegeWithdrawn' }
  t.equal(
    await print(revoke, [], more),
    'the account 7 is ended\n7 a1 is revoked\n7 b2 is revoked\n',
  )
  const body = { reason: 'privilegeWithdrawn' }
  t.strictSame(asked, [
    ['7', body],
    ['7', body],
  ])
  asked.length = 5
  t.match(JSON.parse(await print(revoke, [], { account: ['7'], json: true })), {
    account: '7',
    serialNumbers: ['b2'],
  })
  t.strictSame(asked.at(-1), ['7', {}])
  const none = { message: /either NAME or --account ID/ }
  await t.rejects(print(revoke, []), none)
  await t.rejects(print(revoke, ['app.example.com'], more), none)
  await t.rejects(print(revoke, [], { ...more, reason: 'theft' }), {
    message: /--reason must be one of/,
  })
})
