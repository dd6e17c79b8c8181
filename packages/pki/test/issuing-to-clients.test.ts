import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { contextPrimitive } from '../src/der.ts'
import {
  type Authority,
  clampValidity,
  createIntermediate,
  createLeafSigner,
  createSerial,
  generateP256,
  isAsConfigured,
  loadAuthority,
  type Purpose,
  parseCertificate,
  parseClientName,
  parseCsr,
  parseName,
  parseNameRule,
  readConstraints,
  readKnownCsr,
  toPem,
} from '../src/index.ts'
import { commonName, dns, request, requested, san } from './csr-helpers.ts'
import { DAY, makeAuthorities, makeUpper, NOW } from './helpers.ts'

const { root, intermediate } = await makeAuthorities()
const ofClients = (above: Authority, permitted: string[] = []) =>
  createIntermediate({
    root: above,
    commonName: 'Clients',
    now: NOW,
    purpose: 'clientAuth',
    permitted: permitted.map(parseNameRule),
  })
const clients = await ofClients(root)
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'

function sign(authority: Authority, purpose: Purpose, names: readonly string[]) {
  const key = generateP256()
  const parse = purpose === 'clientAuth' ? parseClientName : parseName
  return createLeafSigner(authority, { purpose }).sign({
    ...{ spki: key.spki, keyType: key.type, names: names.map(parse), serial: createSerial(NOW) },
    ...clampValidity(authority, { notBefore: NOW, notAfter: NOW + DAY }),
  })
}

t.test('a client certificate and its authority are for clients alone', async (t) => {
  const names = ['app.example', 'ada@a.example', 'spiffe://a.example/Web/1']
  const der = sign(clients, 'clientAuth', names)
  const leaf = new X509Certificate(der)
  t.strictSame(leaf.keyUsage, [CLIENT_AUTH])
  t.strictSame(new X509Certificate(clients.certificate).keyUsage, [CLIENT_AUTH])
  t.equal(leaf.subjectAltName, 'DNS:app.example, email:ada@a.example, URI:spiffe://a.example/Web/1')
  t.equal(leaf.subject, 'CN=app.example', 'for people, and for servers that read it')
  t.equal(leaf.checkEmail('ada@a.example'), 'ada@a.example')
  const read = parseCertificate(der).names.map(({ text, kind }) => [text, kind])
  t.strictSame(read, [
    ['app.example', 'dns'],
    ['ada@a.example', 'email'],
    ['spiffe://a.example/Web/1', 'uri'],
  ])
  const withoutDns = new X509Certificate(sign(clients, 'clientAuth', ['ada@a.example']))
  t.equal(withoutDns.subject, undefined, 'no common name but a DNS name')
  t.match(withoutDns.subjectAltName, 'email:ada@a.example')
})

t.test('no signer takes names of the other kind of certificates', async (t) => {
  const signer = (authority: Authority, purpose?: Purpose) =>
    createLeafSigner(authority, purpose && { purpose })
  const key = generateP256()
  for (const [from, name] of [
    [signer(intermediate), parseClientName('ada@a.example')],
    [signer(intermediate), parseClientName('spiffe://a.example/b')],
    [signer(clients, 'clientAuth'), parseName('*.a.example')],
    [signer(clients, 'clientAuth'), parseName('10.0.0.1')],
  ] as const)
    t.throws(
      () =>
        from.sign({
          ...{ spki: key.spki, keyType: key.type, names: [name], serial: createSerial(NOW) },
          ...{ notBefore: NOW, notAfter: NOW + DAY },
        }),
      { code: 'PKI_NAME_INVALID' },
      name.text,
    )
})

t.test('an authority for servers signs nothing for clients, and the reverse', async (t) => {
  const load = ({ certificate, key }: Authority, purpose: Purpose) =>
    loadAuthority({ certificate, ...(key && { key }), now: NOW, purpose })
  t.throws(() => load(intermediate, 'clientAuth'), { code: 'PKI_CA_INVALID' })
  t.throws(() => load(clients, 'serverAuth'), { code: 'PKI_CA_INVALID' })
  t.ok(load(clients, 'clientAuth').key)
  t.ok(load(root, 'clientAuth'), 'a root for any purpose')
  const upper = { ...root, certificate: intermediate.certificate }
  await t.rejects(ofClients(upper), { code: 'PKI_CA_INVALID' }, 'below one for servers')
})

t.test('name constraints below permitted domains', async (t) => {
  const permitted = ['*.corp.example', '*@mail.example']
  const limited = await ofClients(root, permitted)
  const { permits } = readConstraints(limited.chain)
  for (const [name, isWithin] of Object.entries({
    'a.corp.example': true,
    'a.test': false,
    // Rules decide about them before signing: constraints of few programs do.
    'ada@mail.example': true,
    'spiffe://a.test/b': true,
  }))
    t.equal(permits(parseClientName(name)), isWithin, name)
  const options = { permitted: permitted.map(parseNameRule) }
  t.ok(isAsConfigured(limited.certificate, options))
  const onlyMail = await ofClients(root, ['*@mail.example'])
  t.notOk(readConstraints(onlyMail.chain).permits(parseName('a.test')), 'no DNS name')
})

t.test(
  'what constraints of others say of addresses of mail is not read, so none is within',
  (t) => {
    const mail = contextPrimitive(1, 'corp.example')
    for (const [sign, isWithin] of [
      [undefined, true],
      ['+', false],
      ['-', false],
    ] as const) {
      const above = makeUpper(root, 90 * DAY, sign && withMail(sign, mail))
      const { permits } = readConstraints([above.certificate])
      t.equal(permits(parseClientName('ada@corp.example')), isWithin, sign ?? 'none')
      t.ok(permits(parseClientName('spiffe://corp.example/a')))
    }
    t.end()
  },
)

function withMail(sign: '+' | '-', mail: ReturnType<typeof contextPrimitive>) {
  return {
    tag: 0x30,
    parts: [{ tag: sign === '+' ? 0xa0 : 0xa1, parts: [{ tag: 0x30, parts: [mail] }] }],
  }
}

const email = (text: string) => contextPrimitive(1, text)
const uri = (text: string) => contextPrimitive(6, text)
const csr = (names: ReturnType<typeof dns>[], subject?: string) =>
  request({
    attributes: names.length > 0 ? [requested(san(...names))] : [],
    ...(subject !== undefined && { subject: commonName(subject) }),
  })

t.test('requests for client certificates', async (t) => {
  const taken: [what: string, der: Buffer, names: string[]][] = [
    [
      'all kinds',
      csr([dns('a.example'), email('ada@A.example'), uri('spiffe://a/b')]),
      ['a.example', 'ada@a.example', 'spiffe://a/b'],
    ],
    ['a common name', csr([], 'alice'), ['alice']],
    ['one that is no DNS name', csr([email('ada@a.example')], 'Ada Lovelace'), ['ada@a.example']],
  ]
  for (const [what, der, names] of taken)
    for (const read of [parseCsr(der, 'client'), readKnownCsr(der, 'client')])
      t.strictSame(
        read.names.map(({ text }) => text),
        names,
        what,
      )
  const refused: [what: string, der: Buffer][] = [
    ['a wildcard', csr([dns('*.a.example')])],
    ['an IP address', csr([contextPrimitive(7, Buffer.of(10, 0, 0, 1))])],
    ['a wildcard as common name', csr([dns('a.example')], '*.a.example')],
    ['an IP address as common name', csr([dns('a.example')], '10.0.0.1')],
    ['an e-mail address as DNS name', csr([dns('ada@a.example')])],
    ['a DNS name as e-mail address', csr([email('a.example')])],
    ['a DNS name as URI', csr([uri('a.example')])],
    ['a SPIFFE ID as e-mail address', csr([email('spiffe://a/b')])],
    ['another URI', csr([uri('https://a.example/')])],
    ['bytes', csr([email('ad\xe4@a.example')])],
    ['another kind', csr([contextPrimitive(8, Buffer.of(0x2a))])],
  ]
  for (const [what, der] of refused)
    t.throws(() => parseCsr(der, 'client'), { code: 'PKI_CSR_INVALID' }, what)
  for (const name of [email('ada@a.example'), uri('spiffe://a/b')]) {
    const pem = toPem('CERTIFICATE REQUEST', csr([dns('a.example'), name]))
    t.throws(() => parseCsr(pem), { code: 'PKI_CSR_INVALID' }, 'a request of a server')
  }
})
