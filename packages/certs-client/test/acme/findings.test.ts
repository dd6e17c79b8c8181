import type { FetchAnswer } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import {
  type Finding,
  judgeClock,
  judgeDirectory,
  judgeNonces,
  judgeOrder,
  judgeRefusal,
  judgeTls,
} from '../../src/acme/findings.ts'

const FROM = new URL('https://certs.test:7401/acme/directory')
const NOW = Date.parse('2030-01-01T00:00:00Z')

/** An answer with a body of JSON. */
function answered(body: unknown, headers: FetchAnswer['headers'] = {}, status = 200): FetchAnswer {
  return { status, headers, body: Buffer.from(JSON.stringify(body)) }
}

const told = (findings: Iterable<Finding>) =>
  [...findings].map(({ level, text }) => `${level}: ${text}`)

const at = (base: string, more: object = {}) => ({
  newNonce: `${base}/new-nonce`,
  newAccount: `${base}/new-account`,
  newOrder: `${base}/new-order`,
  ...more,
})

t.test('the root is trusted by whoever trusts it', async (t) => {
  const shaken = (refused?: string) => ({ protocol: 'TLSv1.3', root: 'Test Root', refused })
  const SELF = 'SELF_SIGNED_CERT_IN_CHAIN'
  const rows: [...Parameters<typeof judgeTls>, expected: string[]][] = [
    [shaken(), undefined, undefined, ['ok: TLSv1.3; the certificate leads to Test Root']],
    [
      shaken(SELF),
      shaken(),
      '/root.pem',
      [
        'ok: TLSv1.3; the certificate leads to Test Root',
        'warning: this system does not trust that root',
      ],
    ],
    [
      shaken(SELF),
      undefined,
      undefined,
      [`fault: the certificate leads to Test Root, and is not trusted by this system (${SELF})`],
    ],
    [
      shaken(),
      shaken(SELF),
      '/root.pem',
      [`fault: the certificate leads to Test Root, and is not trusted by /root.pem (${SELF})`],
    ],
  ]
  for (const [system, file, path, expected] of rows)
    t.strictSame(told(judgeTls(system, file, path)), expected)
})

t.test('each client is told how to trust the root, unless the root is not to blame', async (t) => {
  const advice = (refused: string) =>
    [...judgeTls({ protocol: 'TLSv1.3', root: 'R', refused }, undefined, undefined)][0]?.advice ??
    ''
  const trust = advice('UNABLE_TO_GET_ISSUER_CERT_LOCALLY')
  for (const word of ['--ca', 'REQUESTS_CA_BUNDLE', 'acme_ca_root', 'LEGO_CA_CERTIFICATES'])
    t.match(trust, word)
  t.match(trust, 'caCertificates')
  t.match(advice('CERT_HAS_EXPIRED'), /clocks/)
  t.match(advice('ERR_TLS_CERT_ALTNAME_INVALID'), /host name/)
})

t.test('directories', async (t) => {
  const ari = { renewalInfo: 'https://certs.test:7401/acme/renewal-info' }
  const here = 'https://certs.test:7401/acme'
  const fine = 'ok: the directory has its URLs at https://certs.test:7401'
  const toldWhen = 'ok: clients are told when to renew (ARI)'
  const rows: [what: string, answer: FetchAnswer, expected: string[], isUsable: boolean][] = [
    ['complete', answered({ ...at(here, ari), random: 'x' }), [fine, toldWhen], true],
    [
      'with all that meta may say',
      answered({
        ...at(here, ari),
        meta: {
          externalAccountRequired: true,
          termsOfService: 'https://certs.test/terms',
          website: 'https://certs.test/\u001b[31m',
          profiles: { server: '', client: '' },
        },
      }),
      [
        fine,
        'ok: an account needs a key of the server (external account binding)',
        'ok: termsOfService: https://certs.test/terms',
        String.raw`ok: website: https://certs.test/\u001b[31m`,
        'ok: profiles: server, client',
        toldWhen,
      ],
      true,
    ],
    [
      'without ARI',
      answered(at(here)),
      [fine, 'warning: clients are not told when to renew (ARI)'],
      true,
    ],
    [
      'of another host',
      answered({ ...at('https://cert-service:7401/acme'), ...ari }),
      ['warning: the directory has URLs at https://cert-service:7401', toldWhen],
      true,
    ],
    [
      'of plain http',
      answered({ ...at(here, ari), newOrder: 'http://certs.test/acme/new-order' }),
      [
        'fault: newOrder is http://certs.test/acme/new-order: plain http is refused for certs.test: use https',
      ],
      false,
    ],
    [
      'of this machine',
      answered({ ...at(here, ari), newNonce: 'https://127.0.0.1/' }),
      ['fault: newNonce is https://127.0.0.1/: certs.test:7401 names this machine: 127.0.0.1'],
      false,
    ],
    [
      'no directory',
      answered({ newNonce: 7 }),
      ['fault: there is no directory: it has no newNonce'],
      false,
    ],
    [
      'of things that are no texts',
      answered({ ...at(here), renewalInfo: { toString: 1 }, meta: { website: { toString: 1 } } }),
      [fine, 'warning: clients are not told when to renew (ARI)'],
      true,
    ],
    ['no JSON', answered('<html>'), ['fault: there is no directory: it has no newNonce'], false],
    [
      'a redirect to a login',
      answered({}, {}, 302),
      ['fault: there is no directory: the status is 302'],
      false,
    ],
  ]
  for (const [what, answer, expected, isUsable] of rows) {
    const findings: Finding[] = []
    const judging = judgeDirectory(FROM, answer)
    let next = judging.next()
    for (; !next.done; next = judging.next()) findings.push(next.value)
    t.strictSame(told(findings), expected, what)
    t.equal(next.value !== undefined, isUsable, what)
  }
})

t.test('nonces', async (t) => {
  const nonce = (text: string, cache?: string, status = 200) =>
    answered('', { 'replay-nonce': text, ...(cache && { 'cache-control': cache }) }, status)
  const gives = 'ok: newNonce gives nonces'
  const uncached = 'warning: newNonce does not say Cache-Control: no-store'
  const rows: [head: FetchAnswer, get: FetchAnswer, ...expected: string[]][] = [
    [nonce('a', 'no-store'), nonce('b', 'public, no-store', 204), gives],
    [nonce('a', 'no-store'), nonce('b'), gives, uncached],
    [nonce('a'), nonce('a'), 'fault: newNonce gives the same nonce twice'],
    [nonce('a', '', 405), nonce('b'), 'fault: newNonce gives no nonce (405, 200)'],
    [nonce('a'), nonce('b c'), 'fault: newNonce gives no nonce (200, 200)'],
    [nonce('a'), answered(''), 'fault: newNonce gives no nonce (200, 200)'],
  ]
  for (const [head, get, ...expected] of rows)
    t.strictSame(told(judgeNonces([head, get])), expected)
})

t.test('the refusal of a nonce', async (t) => {
  const problem = (type: string, more: FetchAnswer['headers'] = {}, status = 400) =>
    answered(
      { type: `urn:ietf:params:acme:error:${type}` },
      { 'content-type': 'application/problem+json; charset=utf-8', ...more },
      status,
    )
  const fresh = { 'replay-nonce': 'new' }
  const rows: [answer: FetchAnswer, expected: string][] = [
    [problem('badNonce', fresh), 'ok: errors are problem documents with a new nonce'],
    [problem('badNonce'), 'warning: errors have no Replay-Nonce'],
    [
      problem('malformed', fresh),
      'warning: an unknown nonce is not refused as urn:ietf:params:acme:error:badNonce',
    ],
    [problem('badNonce', fresh, 200), 'fault: an error is no problem document (200)'],
    [
      answered('<html>', { 'content-type': 'text/html' }, 502),
      'fault: an error is no problem document (502)',
    ],
  ]
  for (const [answer, expected] of rows) t.strictSame(told(judgeRefusal(answer)), [expected])
})

t.test('clocks', async (t) => {
  const rows: [date: string | undefined, expected: string[]][] = [
    ['Tue, 01 Jan 2030 00:00:59 GMT', ['ok: both clocks agree']],
    ['Tue, 01 Jan 2030 00:02:00 GMT', ['warning: the clock of the server is 120 s ahead']],
    ['Mon, 31 Dec 2029 23:00:00 GMT', ['warning: the clock of the server is 3600 s behind']],
    ['yesterday', []],
    [undefined, []],
  ]
  for (const [date, expected] of rows)
    t.strictSame(told(judgeClock(answered('', date ? { date } : {}), NOW)), expected, `${date}`)
})

t.test('orders', async (t) => {
  const identifiers = [{ type: 'dns', value: 'a.test' } as const]
  const authorization = (status: string, ...types: string[]) => ({
    identifier: identifiers[0] as (typeof identifiers)[0],
    status,
    challenges: types.map((type) => ({ type }) as never),
  })
  t.strictSame(
    told(judgeOrder({ status: 'ready', error: undefined, identifiers }, [authorization('valid')])),
    ['ok: the order for a.test is ready', 'ok: the authorization of a.test is valid'],
  )
  t.strictSame(
    told(
      judgeOrder({ status: 'pending', error: undefined, identifiers }, [
        authorization('pending', 'http-01', 'dns-01'),
      ]),
    ),
    [
      'ok: the order for a.test is pending',
      'ok: the authorization of a.test is pending, to be proved by http-01 or dns-01',
    ],
  )
})

t.test('property: no answer makes it fail, and each text is short and one line', async () => {
  const headers = fc.dictionary(
    fc.constantFrom('date', 'replay-nonce', 'cache-control', 'content-type'),
    fc.string(),
  )
  const answer = fc
    .record({ status: fc.integer({ min: 200, max: 599 }), headers, body: fc.json() })
    .map(({ body, ...rest }) => ({ ...rest, body: Buffer.from(body) }))
  const directory = fc
    .record({ newNonce: fc.webUrl(), newAccount: fc.webUrl(), newOrder: fc.jsonValue() })
    .map((body) => answered(body))
  fc.assert(
    fc.property(fc.oneof(answer, directory), (one) => {
      const findings = [
        ...judgeDirectory(FROM, one),
        ...judgeNonces([one, one]),
        ...judgeRefusal(one),
        ...judgeClock(one, NOW),
      ]
      return findings.every(({ text }) => text.length <= 501 && !/\p{Cc}/u.test(text))
    }),
  )
})
