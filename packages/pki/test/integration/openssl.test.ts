import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import {
  buildChainPem,
  createCrl,
  createRoot,
  generateKeyPair,
  KEY_TYPES,
  type KeyType,
  parseCertificate,
  parseCsr,
  toPem,
} from '../../src/index.ts'
import { DAY, issue, makeAuthorities } from '../helpers.ts'

const now = Date.now()
const folder = t.testdir({})
const run = promisify(execFile)
const openssl = async (...args: string[]) => {
  const { stdout } = await run('openssl', args, { cwd: folder, timeout: 20_000 })
  return stdout
}
const write = (name: string, content: string | Uint8Array) => {
  writeFileSync(join(folder, name), content)
  return name
}
const pem = (name: string, der: Uint8Array) => write(name, toPem('CERTIFICATE', der))
const strict = ['verify', '-x509_strict', '-purpose', 'sslserver']

const crlUrl = 'http://ca.example/ca/crl.der'
const { root, intermediate } = await makeAuthorities({ now, crlUrl })
const above = [
  '-CAfile',
  pem('root.pem', root.certificate),
  '-untrusted',
  pem('intermediate.pem', intermediate.certificate),
]

t.test('every key type verifies strictly, and its DER is sound', async (t) => {
  for (const type of KEY_TYPES) {
    const key = await generateKeyPair(type)
    const { der } = issue(intermediate, ['a.example', '*.a.example', '10.0.0.1', '::1'], {
      now,
      key,
      crlUrl,
    })
    t.match(
      await openssl(
        ...strict,
        ...above,
        '-verify_hostname',
        'x.a.example',
        pem(`${type}.pem`, der),
      ),
      'OK',
      type,
    )
    t.match(await openssl(...strict, ...above, '-verify_ip', '::1', `${type}.pem`), 'OK')
    await t.resolves(openssl('asn1parse', '-inform', 'DER', '-in', write('leaf.der', der)))
    await t.resolves(
      openssl('pkey', '-check', '-noout', '-in', write('key.pem', toPem('PRIVATE KEY', key.pkcs8))),
    )
  }
  const nameless = issue(intermediate, ['10.0.0.1'], { now })
  t.match(
    await openssl(...strict, ...above, pem('nameless.pem', nameless.der)),
    'OK',
    'an empty subject',
  )
})

t.test('every kind of issuer verifies strictly', async (t) => {
  for (const type of ['p256', 'p384', 'rsa2048', 'rsa3072', 'rsa4096'] as KeyType[]) {
    const authority = await createRoot({ commonName: type, now, key: await generateKeyPair(type) })
    const { der } = issue(authority, ['a.example'], { now })
    const args = [...strict, '-CAfile', pem('ca.pem', authority.certificate), pem('leaf.pem', der)]
    t.match(await openssl(...args), 'OK', type)
    await t.resolves(
      openssl('asn1parse', '-inform', 'DER', '-in', write('ca.der', authority.certificate)),
    )
  }
})

t.test('revocation', async (t) => {
  const [good, bad] = [
    issue(intermediate, ['good.example'], { now }),
    issue(intermediate, ['bad.example'], { now }),
  ]
  const dates = { thisUpdate: now - 60_000, nextUpdate: now + 7 * DAY }
  const revoked = [
    {
      serialNumber: parseCertificate(bad.der).serialNumber,
      revokedAt: now - 1000,
      reason: 'keyCompromise' as const,
    },
  ]
  const crls = [
    createCrl({ authority: root, number: 1n, revoked: [], ...dates }),
    createCrl({ authority: intermediate, number: 2n, revoked, ...dates }),
  ]
  write('crls.pem', crls.map((crl) => toPem('X509 CRL', crl)).join(''))
  const check = [...strict, ...above, '-crl_check_all', '-CRLfile', 'crls.pem']
  t.match(await openssl(...check, pem('good.pem', good.der)), 'OK')
  await t.rejects(openssl(...check, pem('bad.pem', bad.der)), { message: /certificate revoked/ })
  for (const crl of crls)
    await t.resolves(openssl('asn1parse', '-inform', 'DER', '-in', write('crl.der', crl)))
})

t.test('name constraints hold', async (t) => {
  const table: [permitted: string[], accepted: string[], refused: string[]][] = [
    [
      ['a.example'],
      ['a.example', 'x.a.example', '*.a.example'],
      ['b.example', 'ba.example', '10.0.0.1', '::1'],
    ],
    [['10.0.0.0/8'], ['10.1.2.3'], ['11.0.0.1', '::1', 'a.example']],
    [['2001:db8::/32'], ['2001:db8::1'], ['2001:db9::1', '10.0.0.1', 'a.example']],
    [
      ['a.example', '10.0.0.0/8'],
      ['a.example', '10.0.0.1'],
      ['b.example', '11.0.0.1', '::1'],
    ],
    [['*', 'a.example'], ['b.example', '::1'], []],
  ]
  for (const [permitted, accepted, refused] of table) {
    const { root, intermediate } = await makeAuthorities({ now, permitted })
    const chain = [
      '-CAfile',
      pem('nc-root.pem', root.certificate),
      '-untrusted',
      pem('nc.pem', intermediate.certificate),
    ]
    const verify = (name: string) =>
      openssl(...strict, ...chain, pem('nc-leaf.pem', issue(intermediate, [name], { now }).der))
    for (const name of accepted) t.match(await verify(name), 'OK', `${permitted} accepts ${name}`)
    for (const name of refused)
      await t.rejects(
        verify(name),
        { message: /permitted subtree violation|excluded subtree violation/ },
        `${permitted} refuses ${name}`,
      )
  }
})

t.test('the text of a chain, and requests that OpenSSL made', async (t) => {
  const { der } = issue(intermediate, ['a.example'], { now, crlUrl })
  write('chain.pem', buildChainPem(der, intermediate.chain))
  const text = await openssl('x509', '-noout', '-text', '-in', 'chain.pem')
  for (const line of [
    /Version: 3/,
    /Subject: CN = a\.example/,
    /Digital Signature\n/,
    /TLS Web Server Authentication/,
    /URI:http:\/\/ca\.example\/ca\/crl\.der/,
  ])
    t.match(text, line)
  const kinds: [KeyType, string[]][] = [
    ['p256', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']],
    ['p384', ['ec', '-pkeyopt', 'ec_paramgen_curve:P-384']],
    ['ed25519', ['ed25519']],
    ['rsa2048', ['rsa:2048']],
  ]
  for (const [type, newkey] of kinds) {
    const csr = await openssl(
      'req',
      '-new',
      '-nodes',
      '-newkey',
      ...newkey,
      '-keyout',
      'new.key',
      '-subj',
      '/CN=a.example',
      '-addext',
      'subjectAltName=DNS:b.example,IP:10.0.0.1',
    )
    const { keyType, names } = parseCsr(csr)
    t.strictSame(
      [keyType, ...names.map(({ text }) => text)],
      [type, 'b.example', '10.0.0.1', 'a.example'],
    )
  }
})

const REQUEST_KINDS: readonly [what: string, ...args: string[]][] = [
  ['P-256 with SHA-256', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
  ['P-384 with SHA-512', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384', '-sha512'],
  ['Ed25519', '-newkey', 'ed25519'],
  ['RSA with SHA-384', '-newkey', 'rsa:2048', '-sha384'],
  ...['32', '20', '0'].map((salt): [string, ...string[]] => [
    `RSA-PSS with a salt of ${salt} bytes`,
    ...['-newkey', 'rsa:2048', '-sigopt', 'rsa_padding_mode:pss'],
    ...['-sigopt', `rsa_pss_saltlen:${salt}`],
  ]),
]

t.test('no request of OpenSSL is accepted after a change that OpenSSL refuses', async (t) => {
  for (const [what, ...args] of REQUEST_KINDS) {
    const pem = await openssl(
      ...['req', '-new', '-nodes', '-keyout', 'any.key', '-subj', '/O=Example/CN=a.example'],
      ...['-addext', 'extendedKeyUsage=serverAuth,clientAuth', ...args],
    )
    const { der, names, requested } = parseCsr(pem)
    t.strictSame(
      names.map(({ text }) => text),
      ['a.example'],
      what,
    )
    t.ok(requested.has('clientAuth') && requested.has('O'), `${what}: what else it asks for`)
    let accepted = 0
    for (let at = 0; at < der.length; at++) {
      const changed = Buffer.from(der)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8))
      try {
        parseCsr(changed)
      } catch {
        continue
      }
      accepted++
      const file = write('changed.der', changed)
      t.match(await verifyRequest(file), 'verify OK', `${what}: byte ${at}`)
    }
    t.ok(accepted < 5, `${what}: hardly any change is accepted`)
  }
})

async function verifyRequest(file: string): Promise<string> {
  const args = ['req', '-verify', '-noout', '-inform', 'DER', '-in', file]
  const { stdout, stderr } = await run('openssl', args, { cwd: folder, timeout: 20_000 })
  return stdout + stderr
}
