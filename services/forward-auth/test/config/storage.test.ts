import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, SESSION_KEY } from '../app.ts'

const FOLDER = testFolder(t, { garbage: 'nothing of use\n', empty: '' })
const URL = 'postgres://gatehouse:hunter2@db.example.com/gatehouse'
const KEYLESS = `domains: [{ domain: example.com }]\nportals:\n${portalOf('main')}`
const KEYED = `${SESSION_KEY}\n${KEYLESS}`

async function load(yaml: string, options: object = {}) {
  const file = join(FOLDER, 'config.yaml')
  await writeFile(file, yaml)
  return (await loadForwardAuthConfig(file, {}, options)).value
}

async function faultsOf(yaml: string, options?: object): Promise<string[]> {
  try {
    await load(yaml, options)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ path, message }) => `${path} ${message}`)
  }
}

t.test('a database in place of a folder, and its defaults', async (t) => {
  await writeFile(join(FOLDER, 'url'), `${URL}\n`)
  const expected = {
    url: URL,
    schema: 'gatehouse_auth',
    revocationStaleness: 60_000,
    whenStale: 'refuse',
  }
  for (const storage of [`{ url: "${URL}" }`, '{ urlFile: url }'])
    t.strictSame((await load(`storage: ${storage}\n${KEYED}`)).storage, expected, storage)
  for (const storage of ['{}', '{ path: data }', undefined]) {
    const yaml = storage === undefined ? KEYED : `storage: ${storage}\n${KEYED}`
    t.strictSame((await load(yaml)).storage, { path: join(FOLDER, 'data') }, `${storage}`)
  }
})

t.test('faults of the storage', async (t) => {
  const both = '/storage/path is given together with url: keep one of the two'
  const table: [storage: string, fault: string][] = [
    [`{ url: "${URL}", path: data }`, both],
    ['{ urlFile: none, path: data }', '/storage/urlFile is given together with path'],
    ['{ url: "mysql://gatehouse:hunter2@db/gatehouse" }', '/storage/url '],
    ['{ url: hunter2 }', '/storage/url '],
    ['{ urlFile: none }', '/storage/urlFile names a file that does not exist'],
    [`{ ulr: "${URL}" }`, '/storage/ulr is not a known key, did you mean url?'],
    ['{ paht: data }', '/storage/paht is not a known key, did you mean path?'],
    [`{ url: "${URL}", schema: Auth }`, '/storage/schema must match'],
    [`{ url: "${URL}", schema: "a;b" }`, '/storage/schema must match'],
    [`{ url: "${URL}", schema: ${'a'.repeat(49)} }`, '/storage/schema must match'],
    [`{ url: "${URL}", whenStale: ignore }`, '/storage/whenStale must be'],
    [`{ url: "${URL}", revocationStaleness: 1s }`, '/storage/revocationStaleness must be from 5s'],
    ['{ path: data, whenStale: allow }', '/storage/whenStale is for PostgreSQL, and needs `url`'],
    ['{ caFile: ca.pem }', '/storage/url is missing'],
  ]
  for (const [storage, fault] of table) {
    const faults = await faultsOf(`storage: ${storage}\n${KEYED}`)
    t.ok(
      faults.some((one) => one.startsWith(fault)),
      `${storage}: ${faults}`,
    )
    t.notMatch(faults.join(), /hunter2/, 'no secret')
  }
})

t.test('a database needs keys that all instances share', async (t) => {
  const [fault = '', ...others] = await faultsOf(`storage: { url: "${URL}" }\n${KEYLESS}`)
  t.match(fault, /^\/session\/keys is missing: with storage.url, all instances need the same keys/)
  t.strictSame(others, [])
})

t.test('the certificates of a database are read before the start', async (t) => {
  const at = (file: string) =>
    faultsOf(`storage: { url: "${URL}", caFile: ${file} }\n${KEYED}`, { beforeStart: true })
  t.match(await at('none'), [/^\/storage\/caFile names a file that does not exist/])
  t.match(await at('garbage'), [/^\/storage\/caFile names a file that holds no PEM certificate/])
  const fixture = join(import.meta.dirname, '../fixtures/client-ca.cert.pem')
  t.strictSame(await at(fixture), [])
})

t.test('a check without secrets accepts a URL that is elsewhere', async (t) => {
  const options = { beforeStart: true, withoutSecrets: true }
  t.strictSame(await faultsOf(`storage: { urlFile: none }\n${KEYED}`, options), [])
})
