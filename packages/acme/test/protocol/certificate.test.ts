import { hash } from 'node:crypto'
import { buildCsr, fromPem, generateP256, parseCsr, parseName } from '@gatehouse/pki'
import t from 'tap'
import { acceptChain, downloadCertificate, leadsTo } from '../../src/protocol/certificate.ts'
import { createChainIssuer } from '../scripted-ca/issuer.ts'

const now = Date.UTC(2030, 0, 1)
const key = generateP256()
const csr = buildCsr(key, ['a.example', '*.a.example', '192.0.2.1'].map(parseName))
const ordered = {
  spkiSha256: hash('sha256', key.spki),
  identifiers: [
    { type: 'dns', value: '*.A.example' },
    { type: 'ip', value: '192.0.2.1' },
    { type: 'dns', value: 'a.example' },
  ],
} as const
const issuer = await createChainIssuer('Root One', now)
const pem = await issuer.issue(csr, now, 86_400_000)
const [leaf, intermediate] = fromPem(pem) as [Buffer, Buffer]

const read = (body: string, link: string[] = []) =>
  downloadCertificate(new URL('https://ca.example/cert/1')).process({
    url: new URL('https://ca.example/cert/1'),
    status: 200,
    headers: { link } as never,
    body: Buffer.from(body),
  })

t.test('reads a chain and the URLs of alternate chains', async (t) => {
  const link = [
    '<https://ca.example/cert/1/1>;rel="alternate"',
    '<https://ca.example/>;rel="index"',
  ]
  const { chain, alternates } = read(`junk before\n${pem}`, link)
  t.strictSame(chain, [leaf, intermediate])
  t.strictSame(alternates.map(String), ['https://ca.example/cert/1/1'])
})

t.test('refuses responses that are no chain', async (t) => {
  const rows: [what: string, body: string][] = [
    ['nothing', ''],
    ['a page', '<html></html>'],
    ['half a block', pem.slice(0, 200)],
    [
      'a block that is no certificate',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    ],
    ['a private key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'],
    ['a chain of eleven', pem.repeat(6)],
  ]
  for (const [what, body] of rows) t.throws(() => read(body), { code: 'ACME_ANSWER_INVALID' }, what)
})

t.test('reads a chain of ten', async (t) => {
  t.equal(read(pem.repeat(5)).chain.length, 10)
})

t.test('accepts only the ordered certificate, and encodes it again', async (t) => {
  t.equal(acceptChain([leaf, intermediate], ordered), pem)
  const [other] = ordered.identifiers
  const code = 'ACME_CERTIFICATE_MISMATCH'
  const damaged = Buffer.concat([leaf.subarray(0, -1), Buffer.of((leaf.at(-1) ?? 0) ^ 1)])
  const namesake = await createChainIssuer('Root One', now)
  const [, forged] = fromPem(await namesake.issue(csr, now, 86_400_000)) as [Buffer, Buffer]
  const rows: [what: string, chain: Buffer[], wanted: object, fault: object][] = [
    ['another key', [leaf], { spkiSha256: 'ab' }, { code, message: /another key/ }],
    ['other names', [leaf], { identifiers: [other] }, { code, message: /other names/ }],
    ['the issuer first', [intermediate, leaf], {}, { code }],
    ['a broken chain', [leaf, leaf], {}, { code: 'ACME_ANSWER_INVALID' }],
    ['an issuer of the same name', [leaf, forged], {}, { code: 'ACME_ANSWER_INVALID' }],
    ['a signature that is wrong', [damaged, intermediate], {}, { code: 'ACME_ANSWER_INVALID' }],
  ]
  for (const [what, chain, wanted, fault] of rows)
    t.throws(() => acceptChain(chain, { ...ordered, ...wanted }), fault as { code: string }, what)
})

t.test('finds the issuer of the last certificate of a chain', async (t) => {
  const rows: [name: string, leads: boolean][] = [
    ['Root One', true],
    ['Root', false],
    ['Root One R1', false],
  ]
  for (const [name, leads] of rows) t.equal(leadsTo([leaf, intermediate], name), leads, name)
  t.ok(leadsTo([leaf], 'Root One R1'), 'of a leaf alone')
})

t.test('requests exactly the names of the order', async (t) => {
  const { names } = await parseCsr(csr)
  t.strictSame(
    names.map(({ text }) => text),
    ['a.example', '*.a.example', '192.0.2.1'],
  )
})
