import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { START_RULES } from '../../src/cli/start-rules.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const PROXIES = { trustedProxies: ['10.0.0.1'] }

/** The faults and warnings of a configuration, as `PATH message`, each with its position. */
async function faultsOf(t: Test, mtls: object, { auth = {}, ...more }: { auth?: object } = {}) {
  const file = join(testFolder(t, { empty: 'x' }), 'config.yaml')
  const psk = { key: 'a-key-of-sixteen-or-more' }
  await writeFile(file, stringify({ auth: { psk, mtls, ...auth }, ...more }))
  const startRules = START_RULES
  const { faults, warnings } = await loadCertConfig(file, {}, { startRules }).then(
    ({ warnings }) => ({ faults: [], warnings }),
    ({ message, faults }: ConfigError) => {
      t.match(message, /config\.yaml:\d+:\d+/, 'with its position')
      return { faults, warnings: [] }
    },
  )
  return [...faults.map(({ path, message }) => `${path} ${message}`), ...warnings].filter((fault) =>
    fault.includes('mtls'),
  )
}

const row = (more: object = {}) => ({ name: 'a', dns: 'a.test', domains: ['a.test'], ...more })
const { dns: _, ...nameless } = row()

t.test('faults of callers with certificates', async (t) => {
  const cases: readonly (readonly [
    why: string,
    mtls: object,
    faults: readonly RegExp[],
    more?: object,
  ])[] = [
    ['one row', { callers: [row()] }, []],
    ['no rows', { callers: [] }, [/^\/auth\/mtls\/callers /]],
    ['an operator', { callers: [row({ domains: undefined, operator: true })] }, []],
    [
      'neither',
      { callers: [row({ domains: undefined })] },
      [/callers\/0 needs domains or operator/],
    ],
    ['both', { callers: [row({ operator: true })] }, [/operator is given together with domains/]],
    ['no name', { callers: [nameless] }, [/callers\/0 needs dns or email or uri/]],
    [
      'two names',
      { callers: [row({ email: 'a@a.test' })] },
      [/0\/email is given together with dns/],
    ],
    ['a bad DNS name', { callers: [row({ dns: 'a b' })] }, [/callers\/0 .*other characters/]],
    ['a wildcard', { callers: [row({ dns: '*.a.test' })] }, [/callers\/0 .*wildcard/]],
    ['an IP address', { callers: [row({ dns: '10.0.0.1' })] }, [/callers\/0 .*IP address/]],
    ['an address as DNS', { callers: [row({ dns: 'a@a.test' })] }, [/another name than dns/]],
    ['a DNS name as address', { callers: [{ ...nameless, email: 'a.test' }] }, [/than email/]],
    ['a bad address', { callers: [{ ...nameless, email: 'A@@a.test' }] }, [/callers\/0 /]],
    ['a bad URI', { callers: [{ ...nameless, uri: 'https://a.test/x' }] }, [/callers\/0 .*spiffe/]],
    ['a bad rule', { callers: [row({ domains: ['a.test', 'a b'] })] }, [/callers\/0\/domains\/1 /]],
    [
      'one name twice',
      { callers: [row(), row({ name: 'b', dns: 'A.test.' })] },
      [/callers\/1 has the name of an earlier caller: a.test/],
    ],
    [
      'two rows of one name',
      { callers: [row(), row({ dns: 'b.test' })] },
      [/callers\/1\/name is already in use/],
    ],
    ['an unknown format', { callers: [row()], header: { format: 'apache' } }, [/header\/format /]],
    ['a header', { callers: [row()], header: { format: 'nginx' } }, [], { server: PROXIES }],
    [
      'a header of whoever is local',
      { callers: [row()], header: { format: 'nginx' } },
      [/config.yaml:\d+:\d+.*counts from every program on this machine/],
    ],
    [
      'the same, in so many words',
      { callers: [row()], header: { format: 'nginx' } },
      [/counts from every program/],
      { server: { trustedProxies: ['127.0.0.1', '::1'] } },
    ],
    [
      'a header of nobody',
      { callers: [row()], header: { format: 'nginx' } },
      [/mtls\/header counts from no address/],
      { server: { trustedProxies: [] } },
    ],
    ['no TLS', { callers: [row()] }, [/mtls needs HTTPS/], { server: { tls: 'off' } }],
    [
      'no TLS behind a proxy',
      { callers: [row()], header: { format: 'nginx' } },
      [],
      { server: { tls: 'off', ...PROXIES } },
    ],
    [
      'one method alone',
      { callers: [row()] },
      [/mtls does not count/],
      { auth: { method: 'psk' } },
    ],
    ['a CA that is none', { callers: [row()], caFile: 'empty' }, [/mtls\/caFile .*no PEM/]],
  ]
  for (const [why, mtls, expected, more] of cases) {
    const faults = await faultsOf(t, mtls, more)
    t.equal(faults.length, expected.length, `${why}: ${faults}`)
    for (const [index, fault] of expected.entries()) t.match(faults[index], fault, why)
  }
})
