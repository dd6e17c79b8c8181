import {
  createIntermediate,
  createLeafSigner,
  createRoot,
  fromPem,
  generateP256,
  parseCertificate,
  parseName,
} from '@gatehouse/pki'
import fc from 'fast-check'
import t from 'tap'
import { fetchRenewalInfo, pickMoment, renewalId } from '../../src/index.ts'
import { parseRenewalId, readRenewalInfo } from '../../src/protocol/renewal-info.ts'
import { connect } from '../helpers.ts'

// RFC 9773 appendix A.
const EXAMPLE = `-----BEGIN CERTIFICATE-----
MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt
cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS
BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu
7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf
qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B
yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb
+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK
-----END CERTIFICATE-----`

t.test('the identifier of a certificate', async (t) => {
  const [example = Buffer.alloc(0)] = fromPem(EXAMPLE)
  t.equal(renewalId(example), 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE', 'RFC 9773 4.1')
  const root = await createRoot({ commonName: 'Root', now: Date.now() })
  t.equal(renewalId(root.certificate), undefined, 'without an authority key identifier')
  const authority = await createIntermediate({ root, commonName: 'CA', now: Date.now() })
  const signer = createLeafSigner(authority)
  const { spki, type: keyType } = generateP256()
  const rows: [serial: string, written: string][] = [
    ['7f01', 'fwE'],
    ['80', 'AIA'],
    ['01', 'AQ'],
  ]
  for (const [hex, written] of rows) {
    const names = [parseName('a.example')]
    const serial = Buffer.from(hex, 'hex')
    const leaf = signer.sign({ spki, keyType, names, serial, notBefore: 0, notAfter: 1e12 })
    const id = renewalId(leaf) ?? ''
    t.equal(id.split('.')[1], written, `serial number ${hex}`)
    const { akid, serialNumber } = parseCertificate(leaf)
    t.strictSame(parseRenewalId(id), { akid, serialNumber }, 'parsed again')
  }
})

t.test('an identifier has one spelling', async (t) => {
  t.strictSame(parseRenewalId('aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE'), {
    akid: '69885b6b87464041e1b37b847ba0ae2cde01c8d4',
    serialNumber: '87654321',
  })
  const akid = 'aYhba4dGQEHhs3uEe6CuLN4ByNQ'
  const rows: [what: string, text: string][] = [
    ['nothing', ''],
    ['no dot', akid],
    ['two dots', `${akid}.AQ.AQ`],
    ['a dot before', `.${akid}.AQ`],
    ['no serial number', `${akid}.`],
    ['no key identifier', '.AQ'],
    ['padding', `${akid}=.AQ==`],
    ['another alphabet', '+/8.AQ'],
    ['bits after the end', `${akid}.AR`],
    ['bits after the end of the key identifier', `${akid.slice(0, -1)}R.AQ`],
    ['a single character', `${akid}.AQEBA`],
    ['a line', `${akid}.AQ\n`],
    ['a negative number', `${akid}.gA`],
    ['zero', `${akid}.AA`],
    ['a zero too many', `${akid}.AH8`],
    ['a long number', `${akid}.${'AQEB'.repeat(11)}`],
    ['a long key identifier', `${'AQEB'.repeat(33)}.AQ`],
  ]
  for (const [what, text] of rows) t.equal(parseRenewalId(text), undefined, what)
  const serials = fc.uint8Array({ minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 2, maxLength: 32 }), serials, (akid, serial) => {
      const encode = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url')
      const text = `${encode(akid)}.${encode(serial)}`
      const parsed = parseRenewalId(text)
      if (!parsed) return true
      const sign = Number.parseInt(parsed.serialNumber.slice(0, 2), 16) < 0x80 ? '' : '00'
      const again = [parsed.akid, sign + parsed.serialNumber].map((hex) => Buffer.from(hex, 'hex'))
      return again.map(encode).join('.') === text
    }),
  )
})

t.test('reads responses of the CA', async (t) => {
  const read = (
    suggestedWindow: object,
    retryAfterMs?: number,
    explanationURL: unknown = 'https://ca.example/why',
  ) =>
    readRenewalInfo({
      url: new URL('https://ca.example/ari/x'),
      status: 200,
      headers: {},
      body: Buffer.from(JSON.stringify({ suggestedWindow, explanationURL })),
      retryAfterMs,
    })
  const window = { start: '2030-01-02T00:00:00Z', end: '2030-01-03T00:00:00.5Z' }
  const start = Date.UTC(2030, 0, 2)
  t.strictSame(read(window, 3_600_000), {
    start,
    end: start + 86_400_500,
    explanationUrl: 'https://ca.example/why',
    retryAfterMs: 3_600_000,
  })
  t.equal(read(window).retryAfterMs, 21_600_000, 'six hours, if nothing is said')
  t.equal(read(window, 0).retryAfterMs, 60_000, 'a minute at least')
  t.equal(read(window, 1e9).retryAfterMs, 43_200_000, 'at least twice a day')
  for (const url of ['http://ca.example/why', 'javascript:x', 'https://ca.example/a b', ''])
    t.equal(read(window, 0, url).explanationUrl, undefined, url)
  const moment = { start: window.start, end: window.start }
  for (const bad of [
    { start: window.end, end: window.start },
    moment,
    { start: 'x', end: 'y' },
    {},
  ])
    t.throws(() => read(bad), { code: 'ACME_ANSWER_INVALID' }, JSON.stringify(bad))
})

t.test('a moment lies within the window', async () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.nat(),
      fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      (start, width, drawn) => {
        const moment = pickMoment({ start, end: start + width, retryAfterMs: 0 }, () => drawn)
        return moment >= start && moment <= start + width
      },
    ),
  )
})

t.test('asks a CA with ARI, and one without', async (t) => {
  const window = { start: '2030-01-02T00:00:00Z', end: '2030-01-03T00:00:00Z' }
  const { ca, transport } = await connect(t, { renewalWindow: () => window })
  t.match(await fetchRenewalInfo(transport, 'aki.serial'), { start: Date.parse(window.start) })
  t.match(ca.exchanges.at(-1), { method: 'GET', path: '/renewalInfo/aki.serial', jws: undefined })
  const without = await connect(t)
  t.equal(await fetchRenewalInfo(without.transport, 'aki.serial'), undefined)
})
