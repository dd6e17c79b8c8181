import t from 'tap'
import {
  bits,
  contextPrimitive,
  type Der,
  extendedKeyUsage,
  integer,
  leafKeyUsage,
  octets,
  oid,
  sequence,
  set,
  TRUE,
  utf8,
} from '../src/der.ts'
import { generateKeyPair, type KeyPair, notGranted, parseCsr } from '../src/index.ts'
import { commonName, dns, pair, request, requested, san } from './csr-helpers.ts'
import { issue, makeAuthorities } from './helpers.ts'

const { intermediate } = await makeAuthorities()
const rsa = await generateKeyPair('rsa2048')
const extension = (id: string, value: Der) => sequence(oid(id), octets(value))
const usages = (...ids: string[]) => extension('2.5.29.37', sequence(...ids.map(oid)))
const keyUsage = (...bytes: number[]) => extension('2.5.29.15', bits(Buffer.from(bytes)))
const named = (id: string, text: string) => set(sequence(oid(id), utf8(text)))

t.test('lists what a request asks for and the certificate lacks', async (t) => {
  type Row = [what: string, attributes: Der[], ignored: string[], key?: KeyPair]
  const table: Row[] = [
    ['nothing but names', [requested(san(dns('a.example')))], []],
    ['what every leaf has', [requested(extendedKeyUsage('serverAuth'), leafKeyUsage(false))], []],
    [
      'client authentication',
      [requested(usages('1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'))],
      ['clientAuth'],
    ],
    ['an unknown usage', [requested(usages('1.2.3.4'))], ['1.2.3.4']],
    ['any usage', [requested(usages('2.5.29.37.0'))], ['anyExtendedKeyUsage']],
    [
      'must-staple',
      [requested(extension('1.3.6.1.5.5.7.1.24', sequence(integer(5))))],
      ['mustStaple'],
    ],
    [
      'another TLS feature',
      [requested(extension('1.3.6.1.5.5.7.1.24', sequence(integer(17))))],
      ['TLS feature 0x11'],
    ],
    ['to be an authority', [requested(extension('2.5.29.19', sequence(TRUE)))], ['CA:TRUE']],
    ['not to be one', [requested(extension('2.5.29.19', sequence()))], []],
    ['not to be one, said', [requested(extension('2.5.29.19', sequence(Buffer.of(1, 1, 0))))], []],
    ['to encipher keys with EC', [requested(keyUsage(0xa0))], ['keyEncipherment']],
    ['to encipher keys with RSA', [requested(keyUsage(0xa0))], [], rsa],
    [
      'every usage of a key',
      [requested(keyUsage(0xff, 0x80))],
      [
        'nonRepudiation',
        'keyEncipherment',
        'dataEncipherment',
        'keyAgreement',
        'keyCertSign',
        'cRLSign',
        'encipherOnly',
        'decipherOnly',
      ],
    ],
    ['a policy', [requested(extension('2.5.29.32', sequence()))], ['certificatePolicies']],
    ['an unknown extension', [requested(extension('1.2.3.4.5', 'x'))], ['1.2.3.4.5']],
    [
      'a password for the authority',
      [sequence(oid('1.2.840.113549.1.9.7'), set(utf8('x')))],
      ['challengePassword'],
    ],
    [
      'an unknown attribute',
      [sequence(oid('1.3.6.1.4.1.311.2.1.14'), set())],
      ['1.3.6.1.4.1.311.2.1.14'],
    ],
  ]
  for (const [what, attributes, ignored, key = pair] of table) {
    const csr = parseCsr(request({ key: key.privateKey, attributes }))
    const { der } = issue(intermediate, ['a.example'], { key })
    t.strictSame(notGranted(csr, der), ignored, what)
  }
})

t.test('grants only a common name that is a name from the subject', async (t) => {
  const { der } = issue(intermediate, ['a.example'])
  const table: [what: string, subject: Der, ignored: string[]][] = [
    ['a name', commonName('a.example'), []],
    ['no name', commonName('Ada Lovelace'), ['CN']],
    [
      'an organization and a country',
      sequence(named('2.5.4.6', 'DE'), named('2.5.4.10', 'Example')),
      ['C', 'O'],
    ],
  ]
  for (const [what, subject, ignored] of table)
    t.strictSame(notGranted(parseCsr(request({ subject })), der), ignored, what)
})

t.test('does not list what the certificate has', async (t) => {
  const asked = usages('1.3.6.1.5.5.7.3.1')
  const { der } = issue(intermediate, ['a.example'])
  t.strictSame(notGranted(parseCsr(request({ attributes: [requested(asked)] })), der), [])
  const without = issue(intermediate, ['a.example'], { crlUrl: 'http://ca.example/crl' }).der
  const wanted = requested(extension('2.5.29.31', sequence(contextPrimitive(0, 'x'))))
  t.strictSame(notGranted(parseCsr(request({ attributes: [wanted] })), without), [
    'cRLDistributionPoints',
  ])
})

t.test('lists nothing for a certificate that cannot be read', async (t) => {
  const csr = parseCsr(request({ attributes: [requested(usages('1.3.6.1.5.5.7.3.2'))] }))
  t.strictSame(notGranted(csr, Buffer.from('no certificate')), [])
})
