import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { buildChainPem, fromPem, toPem } from '../../src/index.ts'

const block = (label: string, body: string) =>
  `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`
const good = block('CERTIFICATE', 'AAEC')

t.test('what is written can be read', async (t) => {
  t.equal(toPem('CERTIFICATE', Buffer.of(0, 1, 2)), good)
  t.equal(
    toPem('X509 CRL', Buffer.alloc(49)).split('\n')[1]?.length,
    64,
    'lines have 64 characters',
  )
  t.equal(
    buildChainPem(Buffer.of(0, 1, 2), [Buffer.of(0, 1, 2)]),
    good + good,
    'a chain is in order',
  )
  const property = fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), (der) => {
    assert.deepEqual(fromPem(toPem('PRIVATE KEY', der)), [Buffer.from(der)])
  })
  t.doesNotThrow(() => fc.assert(property))
})

t.test('reading', async (t) => {
  const read: [what: string, text: string, label: string | undefined, count: number][] = [
    ['text around blocks', `subject: x\n${good}\nmore\n${good}`, undefined, 2],
    ['CRLF', good.replaceAll('\n', '\r\n'), 'CERTIFICATE', 1],
    ['blocks of the label only', good + block('PRIVATE KEY', 'AAEC'), 'CERTIFICATE', 1],
  ]
  for (const [what, text, label, count] of read) t.equal(fromPem(text, label).length, count, what)

  const refused: [what: string, text: string, label?: string][] = [
    ['nothing', ''],
    ['no block of the label', good, 'PRIVATE KEY'],
    ['no END', good.slice(0, 40)],
    ['other END', good.replace('END CERTIFICATE', 'END X509 CRL')],
    ['half a block after a whole one', good + good.slice(0, 40)],
    ['empty block', block('CERTIFICATE', '')],
    ['bad base64', block('CERTIFICATE', 'AAE')],
    ['base64 with bits left over', block('CERTIFICATE', 'AAF=')],
    ['padding inside', block('CERTIFICATE', 'AA==AAEC')],
    ['other characters', block('CERTIFICATE', 'AA-_')],
    ['headers of old encrypted keys', block('RSA PRIVATE KEY', 'Proc-Type: 4,ENCRYPTED\n\nAAEC')],
    ['more than a mebibyte', good + ' '.repeat(1 << 20)],
  ]
  for (const [what, text, label] of refused)
    t.throws(() => fromPem(text, label), { code: 'PKI_PEM_INVALID' }, `refused: ${what}`)
})
