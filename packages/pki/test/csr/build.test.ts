import fc from 'fast-check'
import t from 'tap'
import {
  buildCsr,
  generateKeyPair,
  generateP256,
  KEY_TYPES,
  parseCsr,
  parseName,
} from '../../src/index.ts'
import { x509 } from '../helpers.ts'

const names = ['a.example', '*.a.example', '192.0.2.1', '2001:db8::1'].map(parseName)

t.test('each type of key signs its request, which holds the names in order', async (t) => {
  for (const type of KEY_TYPES.filter((type) => !/^rsa[34]/.test(type))) {
    const key = await generateKeyPair(type)
    const csr = await parseCsr(buildCsr(key, names))
    t.strictSame(csr.names, names, type)
    t.ok(csr.spki.equals(key.spki), `${type}: its key`)
  }
})

t.test('requests only the names', async (t) => {
  const csr = new x509.Pkcs10CertificateRequest(buildCsr(generateP256(), names))
  t.equal(csr.subject, '')
  t.equal(csr.attributes.map(({ type }) => type).join(), '1.2.840.113549.1.9.14')
  t.equal(csr.extensions.map(({ type }) => type).join(), '2.5.29.17')
})

t.test('property: writes and reads up to a hundred names', async () => {
  const label = fc.stringMatching(/^[a-z][a-z0-9]{0,30}$/)
  const key = generateP256()
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(label, { minLength: 1, maxLength: 100 }), async (labels) => {
      const wanted = labels.map((one) => parseName(`${one}.example`))
      const { names } = await parseCsr(buildCsr(key, wanted))
      return (
        names.length === wanted.length && names.every(({ text }, i) => text === wanted[i]?.text)
      )
    }),
    { numRuns: 30 },
  )
})
