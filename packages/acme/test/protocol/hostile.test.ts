import { generateP256 } from '@gatehouse/pki'
import fc from 'fast-check'
import t from 'tap'
import { AcmeError, newAccount, updateAccount } from '../../src/index.ts'
import { downloadCertificate } from '../../src/protocol/certificate.ts'
import { newOrder, readAuthorization, readOrder } from '../../src/protocol/order.ts'
import { toError } from '../../src/protocol/problem.ts'
import { readRenewalInfo } from '../../src/protocol/renewal-info.ts'
import type { AcmeResponse } from '../../src/protocol/request.ts'
import { readDirectory } from '../../src/protocol/transport.ts'

const url = new URL('https://ca.example/acme')
const readers: Readonly<Record<string, (answer: AcmeResponse) => unknown>> = {
  'the directory': readDirectory,
  'a new account': newAccount(generateP256().privateKey, {}).process,
  'an account': updateAccount(url.href, {}).process,
  'a new order': newOrder({ identifiers: [] }).process,
  'an order': readOrder(url.href).process,
  'an authorization': readAuthorization(url).process,
  'a certificate': downloadCertificate(url).process,
  'renewal information': readRenewalInfo,
}

// Members that some answer has, with values of any kind, so that many come near to a valid one.
const text = fc.oneof(
  fc.constantFrom('valid', 'pending', 'dns', 'http-01', 'https://ca.example/x', '//', '__proto__'),
  fc.string(),
)
const names =
  'status identifiers authorizations finalize certificate error identifier challenges type value token url wildcard newNonce newAccount newOrder meta contact suggestedWindow start end subproblems detail'
const { document } = fc.letrec((tie) => ({
  document: fc.oneof(
    { depthSize: 'small' },
    text,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('document'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...names.split(' ')), tie('document')),
  ),
}))

for (const [what, read] of Object.entries(readers))
  t.test(`whatever is answered for ${what} is read, or refused with its code`, async () => {
    fc.assert(
      fc.property(document, text, text, (value, location, link) => {
        const headers = { location, link } as unknown as AcmeResponse['headers']
        try {
          read({ url, status: 200, headers, body: Buffer.from(JSON.stringify(value)) })
        } catch (error) {
          if (!(error instanceof AcmeError) || error.code !== 'ACME_ANSWER_INVALID') throw error
        }
      }),
    )
  })

t.test('property: makes an error of any problem document', async () => {
  fc.assert(fc.property(document, (value) => toError(value) instanceof AcmeError))
})
