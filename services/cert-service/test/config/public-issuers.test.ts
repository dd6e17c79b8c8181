import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { loadCertConfig } from '../../src/config/load.ts'

const GITHUB = 'https://token.actions.githubusercontent.com'
const PRIVATE = 'https://id.example.com'

const jwt = (issuerUrl: string, more: object = {}) => ({ issuerUrl, audience: 'certs', ...more })
const rule = (more: object) => ({ names: ['*.a.test'], ...more })

async function faultsOf(t: Test, config: object): Promise<readonly string[]> {
  const file = join(testFolder(t), 'config.yaml')
  await writeFile(file, stringify(config))
  const error = await loadCertConfig(file, {}).then(
    () => undefined,
    (error) => error,
  )
  if (error === undefined) return []
  t.ok(error instanceof ConfigError)
  t.match(error.message, /config\.yaml:\d+:\d+/, 'with its position')
  return error.faults.map(({ path }: { path: string }) => path)
}

t.test('a public issuer is a fault unless something says whose tokens count', async (t) => {
  const cases: [why: string, config: object, faults: string[]][] = [
    ['nothing says it', { auth: { jwt: jwt(GITHUB) } }, ['/auth/jwt/issuerUrl']],
    ['the short layout', { auth: jwt(GITHUB) }, ['/auth/issuerUrl']],
    [
      'each of several',
      { auth: { jwt: { issuers: [jwt(PRIVATE), jwt(GITHUB), jwt('https://gitlab.com')] } } },
      ['/auth/jwt/issuers/1/issuerUrl', '/auth/jwt/issuers/2/issuerUrl'],
    ],
    ['a private one', { auth: { jwt: jwt(PRIVATE) } }, []],
    ['a claim with the names', { auth: { jwt: jwt(GITHUB, { domainsClaim: 'names' }) } }, []],
    ['anyone, in so many words', { auth: { jwt: jwt(GITHUB, { allow: 'anyone' }) } }, []],
    ['the same, short', { auth: { ...jwt(GITHUB), allow: 'anyone' } }, []],
    [
      'anyone at one of two',
      {
        auth: {
          jwt: { issuers: [jwt(GITHUB, { allow: 'anyone' }), jwt('https://gitlab.com')] },
        },
      },
      ['/auth/jwt/issuers/1/issuerUrl'],
    ],
    [
      'tokens that are not taken',
      { auth: { method: 'psk', psk: { key: 'a-key-of-sixteen-or-more' }, jwt: jwt(GITHUB) } },
      [],
    ],
    [
      'a rule by subject',
      { auth: { jwt: jwt(GITHUB) }, rules: [rule({ subject: 'repo:acme/shop' })] },
      [],
    ],
    [
      'a rule by claim',
      {
        auth: { jwt: jwt(GITHUB) },
        rules: [rule({ claim: { name: 'repository', value: 'acme/shop' } })],
      },
      [],
    ],
    [
      'a rule by issuer alone',
      { auth: { jwt: jwt(GITHUB) }, rules: [rule({ issuer: GITHUB })] },
      ['/rules/0'],
    ],
    [
      'a rule by a claim that every token has',
      {
        auth: { jwt: jwt(GITHUB) },
        rules: [rule({ subject: 'x' }), rule({ claim: { name: 'aud', value: 'certs' } })],
      },
      ['/rules/1'],
    ],
    [
      'the same of a private issuer',
      {
        auth: { jwt: { issuers: [jwt(GITHUB), jwt(PRIVATE)] } },
        rules: [rule({ issuer: PRIVATE })],
      },
      [],
    ],
    [
      'by issuer alone where anyone may',
      {
        auth: { jwt: jwt(GITHUB, { allow: 'anyone' }) },
        rules: [rule({ issuer: GITHUB })],
      },
      [],
    ],
    [
      'a deny rule grants nothing',
      {
        auth: { jwt: jwt(GITHUB) },
        rules: [rule({ subject: 'x' }), rule({ effect: 'deny', issuer: GITHUB })],
      },
      [],
    ],
  ]
  for (const [why, config, faults] of cases) t.strictSame(await faultsOf(t, config), faults, why)
})
