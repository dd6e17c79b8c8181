import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createFetch } from '@gatehouse/net'
import t, { type Test } from 'tap'
import { until } from '../../../../../scripts/test/until.ts'
import { createDnsProvider, type DnsProviderConfig } from '../../../src/index.ts'
import { instantClock, NAME, recordAt, signal } from './stand-in.ts'

const isRoot = process.getuid?.() === 0
const deps = { fetch: createFetch(), clock: instantClock }
const NASTY = 'canary "$(touch pwned)" `id` \\ \' ; \n$HOME é'

/** A folder that other users may read and write, as the program runs as nobody if we are root. */
function folderFor(t: Test, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  chmodSync(folder, 0o777)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), content, { mode: 0o755 })
  return folder
}

const exec = (folder: string, changes: object = {}) =>
  createDnsProvider(
    {
      type: 'exec',
      command: [join(folder, 'program'), 'first'],
      env: [],
      mode: 'default',
      timeout: 10_000,
      ...changes,
    } as DnsProviderConfig,
    deps,
  )

/** Writes what it was started with, NUL after each. */
const TELLS = `#!/bin/sh
cd "$(dirname "$0")"
printf '%s\\0' "$@" >arguments
env -0 >environment
id -u >user
id -G >groups
cat >input
`
const OF_SHELL = /^(PWD|OLDPWD|SHLVL|_)$/
const told = (folder: string, file: string) => readFileSync(join(folder, file), 'utf8')

t.test('exec: arguments as they are, a cleared environment, another user', async (t) => {
  const folder = folderFor(t, { program: TELLS })
  const env = [{ name: 'API_KEY', value: NASTY }]
  process.env.GATEHOUSE_CANARY = 'canary'
  await exec(folder, { env }).present(recordAt(NAME), signal)
  delete process.env.GATEHOUSE_CANARY
  t.strictSame(told(folder, 'arguments').split('\0').slice(0, -1), [
    'first',
    'present',
    `${NAME}.`,
    'our-value',
  ])
  const names = told(folder, 'environment').split('\0').slice(0, -1)
  t.ok(names.includes(`API_KEY=${NASTY}`))
  t.strictSame(
    names
      .map((line) => line.split('=')[0])
      .filter((name) => !OF_SHELL.test(name ?? ''))
      .sort(),
    ['API_KEY', 'HOME', 'PATH', 'TMPDIR'],
  )
  t.equal(told(folder, 'user').trim(), isRoot ? '65534' : String(process.getuid?.()))
  if (isRoot) t.equal(told(folder, 'groups').trim(), '65534', 'no group of ours is left')
  t.equal(told(folder, 'input'), '')
  await exec(folder).cleanUp(recordAt(NAME), signal)
  t.match(told(folder, 'arguments'), '\0cleanup\0')
})

t.test('exec: raw passes the challenge', async (t) => {
  const folder = folderFor(t, { program: TELLS })
  await exec(folder, { mode: 'raw' }).present(recordAt(NAME), signal)
  t.strictSame(told(folder, 'arguments').split('\0').slice(0, -1), [
    'first',
    'present',
    '--',
    'app.example.test',
    'the-token',
    'the-token.thumbprint',
  ])
})

t.test('exec: a user of its own', { skip: !isRoot }, async (t) => {
  const folder = folderFor(t, { program: TELLS })
  await exec(folder, { user: { uid: 12_345, gid: 12_346 } }).present(recordAt(NAME), signal)
  t.equal(told(folder, 'user').trim(), '12345')
  t.equal(told(folder, 'groups').trim(), '12346')
})

t.test('exec: it works in a folder of its own, which goes with it', async (t) => {
  const folder = folderFor(t, { program: '#!/bin/sh\npwd >"$(dirname "$0")/where"; touch left\n' })
  await exec(folder).present(recordAt(NAME), signal)
  const where = told(folder, 'where').trim()
  t.notOk(readdirSync(tmpdir()).includes(where.split('/').at(-1) ?? ''))
})

const FAILURES: [title: string, program: string, message: RegExp | string][] = [
  [
    'an exit status, with the last line',
    'echo first >&2; echo "it does not work" >&2; exit 3',
    / ended with 3: it does not work$/,
  ],
  [
    'a secret in what it says',
    'echo "key is $API_KEY, oh" >&2; exit 1',
    / ended with 1: key is \*\*\*, oh$/,
  ],
  [
    'control characters and much of it',
    `printf '\\033[31mred\\033[0m\\a%0500d' 7 >&2; exit 1`,
    / ended with 1: red 0{196}$/,
  ],
  [
    'a line that is cut within a secret',
    `{ for i in $(seq 999); do printf -- -canary-1; done } >&2; exit 1`,
    / ended with 1$/,
  ],
  [
    'a line that is cut at both ends',
    `{ for i in $(seq 999); do printf -- -canary-1; done; echo; printf canary; } >&2; kill -TERM $$`,
    / ended with SIGTERM$/,
  ],
  [
    'a line that a signal cuts within a secret',
    'echo first >&2; printf canary >&2; kill -TERM $$',
    / ended with SIGTERM: first$/,
  ],
  [
    'a line that its own process may go on with',
    'echo first >&2; printf canary >&2; setsid sleep 5 & exit 1',
    / ended with 1: first$/,
  ],
  ['a signal', 'kill -TERM $$', / ended with SIGTERM$/],
]

for (const [title, program, message] of FAILURES)
  t.test(`fails: ${title}`, async (t) => {
    const folder = folderFor(t, { program: `#!/bin/sh\n${program}\n` })
    const provider = exec(folder, { env: [{ name: 'API_KEY', value: 'canary-1' }] })
    await t.rejects(provider.present(recordAt(NAME), signal), {
      code: 'ACME_DNS_PROVIDER',
      message,
    })
  })

t.test('fails: no such program', (t) =>
  t.rejects(exec('/nowhere').present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: /ENOENT/,
  }),
)

t.test('kills a program that runs too long, with all that it has started', async (t) => {
  const folder = folderFor(t, {
    program: '#!/bin/sh\nwhile echo >>"$(dirname "$0")/beats"; do sleep 0.05; done &\nsleep 60\n',
  })
  await t.rejects(exec(folder, { timeout: 300 }).present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: / was not done within 0\.3 s/,
  })
  const aborted = AbortSignal.timeout(200)
  await t.rejects(exec(folder).present(recordAt(NAME), aborted), { name: 'TimeoutError' })
  const beats = () => statSync(join(folder, 'beats'), { throwIfNoEntry: false })?.size
  await until(async () => {
    const before = beats()
    await delay(300)
    return beats() === before
  })
})

t.test('does not start a program after an abort', async (t) => {
  const folder = folderFor(t, { program: '#!/bin/sh\ntouch "$(dirname "$0")/ran"; sleep 60\n' })
  const stop = new AbortController()
  const done = exec(folder).present(recordAt(NAME), stop.signal)
  stop.abort(new Error('enough'))
  await t.rejects(done, { message: 'enough' })
  t.notOk(readdirSync(folder).includes('ran'))
})

t.test('hides a secret that begins like another one', async (t) => {
  const folder = folderFor(t, { program: '#!/bin/sh\necho "$LONG $SHORT" >&2; exit 1\n' })
  const env = [
    { name: 'SHORT', value: 'canary' },
    { name: 'LONG', value: 'canary-and-more' },
  ]
  await t.rejects(exec(folder, { env }).present(recordAt(NAME), signal), {
    message: / ended with 1: \*\*\* \*\*\*$/,
  })
})

t.test('is done when the program ends, even if it leaves a process running', async (t) => {
  const daemon = `setsid sh -c 'echo $$ >pid; exec sleep 30' &`
  const wait = 'while [ ! -s pid ]; do sleep 0.01; done'
  const folder = folderFor(t, { program: `#!/bin/sh\ncd "$(dirname "$0")"\n${daemon}\n${wait}\n` })
  await exec(folder).present(recordAt(NAME), signal)
  t.ok(process.kill(Number(told(folder, 'pid')), 'SIGKILL'), 'it was still there')
})

// The shape of acme.sh: helpers, and a command line at the end that shows help without arguments.
const ACME_SH = `#!/usr/bin/env sh
_info() { printf '%s\\n' "$*"; }
_err() { printf '%s\\n' "$*" >&2; }
_saveaccountconf_mutable() { echo "$1=$2" >>"$HOME/account.conf"; }
main() {
  [ -z "$1" ] && echo "Usage" && return
  "$@"
}
main "$@"
`
const DNS_TEST = `#!/usr/bin/env sh
dns_test_info='A provider
Site: dns.test
Options:
 Test_Token API token
 Test_Out Folder. Optional.
Author: us
'
dns_test_add() {
  _info adding
  [ "$Test_Token" ] || { _err "Test_Token is missing"; return 1; }
  _saveaccountconf_mutable Test_Token "$Test_Token"
  env -0 >"$Test_Out/environment"
  tr '\\0' ' ' </proc/$$/cmdline >"$Test_Out/cmdline"
  ls -A "$HOME" >"$Test_Out/home"
  printf '%s\\0' "$1" "$2" "$Test_Token" >"$Test_Out/added"
  cat >"$Test_Out/input"
}
dns_test_rm() {
  printf '%s\\0' "$1" "$2" >"$Test_Out/removed"
}
`

function acmesh(t: Test, credentials: Record<string, string>, changes: object = {}) {
  const folder = folderFor(t, { 'acme.sh': ACME_SH })
  const dnsapi = join(folder, 'dnsapi')
  mkdirSync(dnsapi)
  writeFileSync(join(dnsapi, 'dns_test.sh'), DNS_TEST)
  const given = Object.entries({ Test_Out: folder, ...credentials }).map(([name, value]) => ({
    name,
    value,
  }))
  const config = {
    type: 'acmesh',
    path: folder,
    script: 'dns_test',
    credentials: given,
    timeout: 10_000,
    ...changes,
  }
  return { folder, provider: createDnsProvider(config as DnsProviderConfig, deps) }
}

t.test('acmesh: passes record and credentials to the script and nowhere else', async (t) => {
  const { folder, provider } = acmesh(t, { Test_Token: NASTY })
  await provider.present(recordAt(NAME, '$(touch pwned)-value'), signal)
  t.strictSame(told(folder, 'added').split('\0').slice(0, -1), [
    NAME,
    '$(touch pwned)-value',
    NASTY,
  ])
  t.notMatch(told(folder, 'environment'), 'canary')
  t.notMatch(told(folder, 'cmdline'), /canary|pwned|app\.example/)
  t.equal(told(folder, 'home'), '', 'nothing is saved')
  t.equal(told(folder, 'input'), '', 'nothing is left to read')
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(told(folder, 'removed').split('\0').slice(0, -1), [NAME, 'our-value'])
})

t.test('acmesh: reports the output of the script', async (t) => {
  await t.rejects(acmesh(t, {}).provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: /: Test_Token is missing$/,
  })
  await t.rejects(acmesh(t, {}, { script: 'dns_none' }).provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: /dns_none/,
  })
})

t.test(
  'acmesh: refuses a variable that the script does not know, and lists those that it knows',
  (t) =>
    t.rejects(acmesh(t, { Test_Tokn: 'canary' }).provider.present(recordAt(NAME), signal), {
      code: 'ACME_DNS_CREDENTIALS',
      message: 'dns_test does not take Test_Tokn, but Test_Token, Test_Out',
    }),
)
