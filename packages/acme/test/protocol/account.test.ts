import { createPublicKey } from 'node:crypto'
import { generateP256 } from '@gatehouse/pki'
import t from 'tap'
import { changeKey, newAccount, updateAccount } from '../../src/index.ts'
import { connect } from '../helpers.ts'

const newKey = () => generateP256().privateKey
const contact = ['mailto:ops@example.com']

t.test('creates, updates, rolls over and deactivates an account', async (t) => {
  const { ca, transport } = await connect(t, { termsOfService: 'https://ca.example/terms' })
  const key = newKey()
  const request = { contact, termsOfServiceAgreed: true }
  const account = await transport.send(newAccount(key, request), { key })
  t.match(account, { url: /^http:\/\/127\.0\.0\.1:\d+\/account\//, status: 'valid', contact })
  t.strictSame(await transport.send(newAccount(key, request), { key }), account, 'the same again')
  const existing = newAccount(key, { onlyReturnExisting: true })
  t.strictSame(await transport.send(existing, { key }), account, 'found by its key')

  const signer = { key, accountUrl: account.url }
  const contact2 = ['mailto:new@example.com']
  const updated = await transport.send(updateAccount(account.url, { contact: contact2 }), signer)
  t.strictSame(updated, { ...account, contact: contact2 }, 'another contact')

  const next = newKey()
  await transport.send(changeKey(account.url, key, next), signer)
  const found = await transport.send(newAccount(next, { onlyReturnExisting: true }), { key: next })
  t.equal(found.url, account.url, 'the new key has the account')
  await t.rejects(transport.send(existing, { key }), { code: 'ACME_ACCOUNT_DOES_NOT_EXIST' })

  const rolled = { key: next, accountUrl: account.url }
  const deactivation = {
    ...updateAccount(account.url, {}),
    payload: () => ({ status: 'deactivated' }),
  }
  const gone = await transport.send(deactivation, rolled)
  t.equal(gone.status, 'deactivated')
  const closed = { code: 'ACME_ACCOUNT_CLOSED' }
  await t.rejects(transport.send(updateAccount(account.url, {}), rolled), closed)
  const kinds = ca.exchanges.map(({ header }) => (header.kid ? 'kid' : header.jwk ? 'jwk' : ''))
  t.equal(kinds.filter((kind) => kind === 'jwk').length, 5, 'a key speaks for itself only there')
})

t.test('sends what a CA demands of a new account', async (t) => {
  const externalAccount = { kid: 'kid-1', hmacKey: 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0' }
  const rows: [what: string, ca: object, request: object, code: string | undefined][] = [
    ['terms', { termsOfService: 'https://x.example' }, {}, 'ACME_USER_ACTION_REQUIRED'],
    ['an external account', { externalAccount }, {}, 'ACME_EXTERNAL_ACCOUNT_REQUIRED'],
    ['it, given', { externalAccount }, { externalAccount }, undefined],
    [
      'it, with another secret',
      { externalAccount },
      { externalAccount: { ...externalAccount, hmacKey: 'AAAA' } },
      'ACME_UNAUTHORIZED',
    ],
    ['one that exists', {}, { onlyReturnExisting: true }, 'ACME_ACCOUNT_DOES_NOT_EXIST'],
  ]
  for (const [what, options, request, code] of rows) {
    const { transport } = await connect(t, options)
    const key = newKey()
    const sent = transport.send(newAccount(key, request), { key })
    if (code) await t.rejects(sent, { code }, what)
    else t.equal((await sent).status, 'valid', what)
  }
})

t.test('the binding never holds the secret, nor a request the private key', async (t) => {
  const key = newKey()
  const { d } = key.export({ format: 'jwk' })
  const call = newAccount(key, { externalAccount: { kid: 'k', hmacKey: 'c2VjcmV0' } })
  const text = JSON.stringify(call.payload?.('https://ca.example/new-account'))
  t.notMatch(text, 'c2VjcmV0')
  t.notMatch(Buffer.from(text, 'base64url').toString(), String(d))
  t.ok(createPublicKey(key), 'the key stays usable')
})
