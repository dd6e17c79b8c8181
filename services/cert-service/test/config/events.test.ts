import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigError } from '@gatehouse/service-kit/config'
import { receiversOf } from '@gatehouse/service-kit/events'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { stringify } from 'yaml'
import { loadCertConfig } from '../../src/config/load.ts'

const CANARY = 'canary5b8e2d'
const webhook = { type: 'webhook', url: 'https://hook.test/', secret: 's'.repeat(16) }
const ntfy = { type: 'ntfy', url: `https://ntfy.test/${CANARY}` }
const slack = { type: 'slack', url: `https://hooks.slack.test/services/${CANARY}` }
const email = { type: 'email', host: 'smtp.test', from: 'a@a.test', to: ['b@b.test'] }
const login = { user: 'u', password: CANARY }

/** What is said of a list of receivers; each has a name unless it gives one. */
const CASES: readonly [what: string, receivers: readonly object[], faults: readonly string[]][] = [
  ['one of each', [webhook, ntfy, slack, { ...email, ...login }], []],
  ['a token', [{ ...ntfy, token: 'tk_1' }], []],
  [
    'two with one name',
    [
      { ...ntfy, name: 'a' },
      { ...slack, name: 'a' },
    ],
    ['/1/name'],
  ],
  ['the name of the other form', [{ ...ntfy, name: 'webhook' }], ['/0/name']],
  ['a name with spaces', [{ ...ntfy, name: 'my phone' }], ['/0/name']],
  ['an unknown type', [{ type: 'pager' }], ['/0/type']],
  ['plain http', [{ ...slack, url: 'http://hooks.lan/x' }], ['/0/url']],
  ['plain http that is allowed', [{ ...slack, url: 'http://hooks.lan/x', allowHttp: true }], []],
  ['no topic', [{ ...ntfy, url: 'https://ntfy.test/' }], ['/0/url']],
  ['no path', [{ ...ntfy, url: 'https://ntfy.test' }], ['/0/url']],
  ['a query', [{ ...ntfy, url: `https://ntfy.test/a?auth=${CANARY}` }], ['/0/url']],
  ['a token with a line break', [{ ...ntfy, token: `${CANARY}\n${CANARY}` }], ['/0/token']],
  ['a user without a password', [{ ...email, user: 'u' }], ['/0/user']],
  ['a password without a user', [{ ...email, password: CANARY }], ['/0/password']],
  ['a password in plain text', [{ ...email, ...login, tls: 'off' }], ['/0/tls']],
  ['plain text on loopback', [{ ...email, ...login, tls: 'off', host: '127.0.0.1' }], []],
  ['a relay without TLS and password', [{ ...email, tls: 'off', port: 25 }], []],
  ['a server with a scheme', [{ ...email, host: 'smtp://smtp.test' }], ['/0/host']],
  ['no recipient', [{ ...email, to: [] }], ['/0/to']],
  ['two addresses in one', [{ ...email, to: ['a@a.test, b@b.test'] }], ['/0/to/0']],
  ['a header in an address', [{ ...email, from: 'a@a.test\nBcc: b@b.test' }], ['/0/from']],
]

t.test('receivers of events', async (t) => {
  for (const [what, receivers, expected] of CASES) {
    const named = receivers.map((receiver, n) => ({ name: `r${n}`, ...receiver }))
    const other = { webhook: { url: 'https://hook.test/', secret: 's'.repeat(16) } }
    const file = join(testFolder(t), 'config.yaml')
    writeFileSync(
      file,
      stringify({
        auth: { psk: { key: 'a-key-of-sixteen-or-more' } },
        events: { ...other, receivers: named },
      }),
    )
    const faults = await loadCertConfig(file, {}).then(
      () => [],
      (error: ConfigError) => error.faults,
    )
    t.strictSame(
      faults.map(({ path }) => path),
      expected.map((path) => `/events/receivers${path}`),
      what,
    )
    t.notMatch(JSON.stringify(faults), CANARY)
  }
})

t.test('the older form is a receiver, too', async (t) => {
  const file = join(testFolder(t, { token: 'tk_from_a_file\n' }), 'config.yaml')
  const events = {
    webhook: { url: 'https://hook.test/', secret: 's'.repeat(16) },
    receivers: [{ name: 'phone', ...ntfy, tokenFile: 'token' }],
  }
  writeFileSync(file, stringify({ auth: { psk: { key: 'a-key-of-sixteen-or-more' } }, events }))
  const { value } = await loadCertConfig(file, {})
  t.match(receiversOf(value.events), [
    { name: 'webhook', type: 'webhook', url: 'https://hook.test/', events: { length: 6 } },
    { name: 'phone', type: 'ntfy', token: 'tk_from_a_file' },
  ])
  t.strictSame(receiversOf({ receivers: [] }), [])
})
