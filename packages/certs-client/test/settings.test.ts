import { execFileSync } from 'node:child_process'
import { UsageError } from '@gatehouse/service-kit/program'
import t from 'tap'
import {
  type ConnectionOptions,
  checkForms,
  readConnection,
  readMode,
  readName,
  readNames,
  readOwner,
  readProbe,
  readProfile,
  readSecretName,
} from '../src/settings.ts'

const KEY = { keyFile: '/k' }
const JOB = {
  ACTIONS_ID_TOKEN_REQUEST_URL: 'https://gh.test/?v=1',
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'rt',
}
const CLIENT = { clientId: 'me', clientSecretFile: '/s' }

t.test('how a client authenticates', async (t) => {
  const cases: readonly [ConnectionOptions, NodeJS.ProcessEnv, object][] = [
    [KEY, {}, { kind: 'key', key: { file: '/k' } }],
    [{}, { GATEHOUSE_KEY_FILE: '/k' }, { kind: 'key', key: { file: '/k' } }],
    [{}, { GATEHOUSE_KEY: 'secret' }, { kind: 'key', key: { text: 'secret' } }],
    [{ tokenFile: '/t' }, { GATEHOUSE_KEY: 'unused' }, { kind: 'token', token: { file: '/t' } }],
    [{}, { GATEHOUSE_TOKEN_FILE: '/t' }, { kind: 'token', token: { file: '/t' } }],
    [{}, { GATEHOUSE_TOKEN: 'x', GATEHOUSE_KEY: '' }, { kind: 'token', token: { text: 'x' } }],
    [
      { githubActions: true, audience: 'certs' },
      JOB,
      { kind: 'github', url: 'https://gh.test/?v=1', token: 'rt', audience: 'certs' },
    ],
    [
      { ...CLIENT, tokenIssuer: 'https://id.test', scope: 's' },
      {},
      {
        kind: 'client',
        clientId: 'me',
        clientSecret: { file: '/s' },
        issuer: 'https://id.test/',
        scope: 's',
      },
    ],
    [
      {},
      {
        GATEHOUSE_CLIENT_ID: 'me',
        GATEHOUSE_CLIENT_SECRET: 'x',
        GATEHOUSE_TOKEN_URL: 'https://id.test/token',
        GATEHOUSE_AUDIENCE: 'certs',
      },
      {
        kind: 'client',
        clientSecret: { text: 'x' },
        tokenUrl: 'https://id.test/token',
        audience: 'certs',
      },
    ],
  ]
  for (const [options, env, source] of cases) t.match(readConnection(options, env).source, source)
})

t.test('where the service is', async (t) => {
  t.equal(readConnection(KEY, {}).url.href, 'https://localhost:7401/')
  t.equal(readConnection(KEY, { GATEHOUSE_URL: 'https://a.test' }).url.href, 'https://a.test/')
  const url = 'http://127.0.0.1:1/x'
  t.equal(readConnection({ ...KEY, url }, { GATEHOUSE_URL: 'https://a.test' }).url.href, url)
  t.equal(readConnection(KEY, { GATEHOUSE_CA: '/ca' }).caFile, '/ca')
  t.equal(readConnection({ ...KEY, ca: '/b' }, { GATEHOUSE_CA: '/ca' }).caFile, '/b')
})

t.test('wrong arguments are refused with a reason', async (t) => {
  const cases: readonly [ConnectionOptions, NodeJS.ProcessEnv, RegExp][] = [
    [{}, {}, /no credentials/],
    [{ keyFile: '/k', tokenFile: '/t' }, {}, /only one way.*--key-file.*--token-file/],
    [{}, { GATEHOUSE_KEY: 'x', GATEHOUSE_CLIENT_ID: 'y' }, /only one way.*GATEHOUSE_CLIENT_ID/],
    [KEY, { GATEHOUSE_TOKEN: 'x', GATEHOUSE_CLIENT_ID: 'y' }, /only one way.*GATEHOUSE_CLIENT_ID/],
    [{ ...KEY, url: 'http://certs.example.com' }, {}, /--url: plain http is refused/],
    [{ ...KEY, url: 'https://user:pass@certs.example.com' }, {}, /--url/],
    [{ ...KEY, url: 'certs.example.com' }, {}, /--url/],
    [{ githubActions: true }, JOB, /--audience/],
    [{ githubActions: true, audience: 'x' }, {}, /id-token: write/],
    [{ clientId: 'x', tokenIssuer: 'https://id.test' }, {}, /--client-secret-file/],
    [CLIENT, {}, /--token-issuer or --token-url/],
    [{ ...CLIENT, tokenIssuer: 'http://id.test' }, {}, /--token-issuer: plain http/],
  ]
  for (const [options, env, message] of cases)
    t.throws(() => readConnection(options, env), { message })

  t.same(
    readNames(['A.test.', '*.a.test', 'a.test']).map(({ text }) => text),
    ['a.test', '*.a.test'],
  )
  t.equal(readName('::0001').text, '::1')
  const many = Array.from({ length: 101 }, (_, i) => `a${i}.test`)
  t.equal(readNames(many.slice(1)).length, 100)
  const wrong = [
    () => readNames(['a b']),
    () => readNames(many),
    () => readName('https://a.test'),
    ...['', '0d', '6', '6w', '1.5d', '-1d', '1000000d'].flatMap((duration) => [
      () => checkForms({ lifetime: duration }),
      () => checkForms({ ending: duration }),
    ]),
    ...['', 'zz', '0x12', 'a', 'ab '].map((under) => () => checkForms({ under })),
    ...['', 'c a', 'x'.repeat(65)].map((issuer) => () => checkForms({ issuer })),
    () => readProfile('both'),
    () => readNames(['*.a.test'], 'client'),
    () => readName('ada@a.test'),
    ...['', '0', '8', '999', '644', '004', '040', '1777', '-600', '06000'].map(
      (text) => () => readMode(text),
    ),
    ...['', 'a', 'a/', '/a', 'a/b/c', 'A/b', 'a/../b', 'a/b?x'].map(
      (text) => () => readSecretName(text),
    ),
  ]
  for (const read of wrong) t.ok(caught(read) instanceof UsageError, String(read))
  t.equal(readMode('640'), 0o640)
  t.equal(readMode('0600'), 0o600)
  for (const options of [
    ...[{}, { lifetime: '6d' }, { lifetime: '12h', spread: '7d', issuer: 'ca-client' }],
    ...[{ under: 'ab'.repeat(20) }, { under: `${'AB:'.repeat(31)}CD` }],
  ])
    t.doesNotThrow(() => checkForms(options))
  t.same(['client', undefined].map(readProfile), ['client', undefined])
  t.equal(readName('ada@A.test', 'client').text, 'ada@a.test')
  t.same(readSecretName('shop/tls.web-1'), { namespace: 'shop', name: 'tls.web-1' })
})

function caught(step: () => unknown): unknown {
  try {
    return step()
  } catch (error) {
    return error
  }
}

t.test('owners by name and number', async (t) => {
  const [user, group] = ['-un', '-gn'].map((flag) => String(execFileSync('id', [flag])).trim())
  const me = { uid: process.getuid?.(), gid: process.getgid?.() }
  t.same(await readOwner(`${user}:${group}`), me)
  t.same(await readOwner(`${user}`), { ...me, gid: -1 })
  t.same(await readOwner(`:${group}`), { ...me, uid: -1 })
  t.same(await readOwner('12:34'), { uid: 12, gid: 34 })
  for (const text of ['', ':', 'a:b:c', 'no-such-user', ':no-such-group', '-V', 'a b'])
    t.ok((await readOwner(text).catch((error) => error)) instanceof UsageError, text)
})

t.test('ports to look at', async (t) => {
  const table: readonly [text: string, host: string, port: number, protocol: string][] = [
    [':443', '', 443, 'tls'],
    [':25 smtp', '', 25, 'smtp'],
    [':8443', '', 8443, 'tls'],
    ['App.Example.COM:443', 'app.example.com', 443, 'tls'],
    ['bücher.test:5432', 'xn--bcher-kva.test', 5432, 'postgres'],
    ['10.0.0.1:2525 smtp', '10.0.0.1', 2525, 'smtp'],
    ['[2001:db8::1]:443', '2001:db8::1', 443, 'tls'],
  ]
  for (const [text, host, port, protocol] of table)
    t.strictSame(readProbe(text), { host, port, protocol }, text)
  for (const text of [
    '',
    '443',
    'a.test',
    ':0',
    ':443 http',
    '2001:db8::1:443',
    'a b:443',
    '*.a.test:443',
    '[]:1',
  ])
    t.throws(() => readProbe(text), { message: /is no port such as :443.* smtp, lmtp,/ }, text)
})
