import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ConfigFault, loadConfig } from '@gatehouse/service-kit/config'
import { Ajv } from 'ajv'
import t, { type Test } from 'tap'
import { parse, parseDocument } from 'yaml'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { CertServiceSchema } from '../../services/cert-service/src/config/schema.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { ForwardAuthSchema } from '../../services/forward-auth/src/config/schema.ts'
import { completed } from './config-fragments.ts'
import { FAULTY, withFault } from './faulty-configs.ts'
import { ROOT, readDocuments } from './markdown.ts'

/** The JSON Schemas of the configurations, and check-config, agree. */

const SERVICES = {
  'forward-auth': { load: loadForwardAuthConfig, schema: ForwardAuthSchema },
  'cert-service': { load: loadCertConfig, schema: CertServiceSchema },
} as const

type Service = keyof typeof SERVICES
const NAMES = Object.keys(SERVICES) as Service[]

const folder = t.testdir()
const ajv = new Ajv({ allErrors: true, strictTypes: false, strictRequired: false })
ajv.addVocabulary(['deprecationMessage', 'doNotSuggest', 'patternErrorMessage'])
const validators = new Map(
  NAMES.map((service) => {
    const file = join(ROOT, `docs/reference/${service}.schema.json`)
    return [service, ajv.compile(JSON.parse(readFileSync(file, 'utf8')))]
  }),
)

/** The places of the faults that the JSON Schema finds, as JSON pointers. */
function markedBy(service: Service, value: unknown): string[] {
  const validate = validators.get(service)
  if (validate?.(value) !== false) return []
  return (validate.errors ?? []).map(({ instancePath, params }) =>
    params.additionalProperty ? `${instancePath}/${params.additionalProperty}` : instancePath,
  )
}

/** The faults that check-config finds. */
async function faultsOf(service: Service, text: string, env = {}): Promise<ConfigFault[]> {
  const file = join(folder, 'config.yaml')
  writeFileSync(file, text)
  return faultsBy(SERVICES[service].load(file, env, { withoutSecrets: true }))
}

/** The faults of the values alone, without rules. */
async function valueFaultsOf(service: Service, text: string): Promise<ConfigFault[]> {
  const file = join(folder, 'config.yaml')
  writeFileSync(file, text)
  const { schema } = SERVICES[service]
  return faultsBy(loadConfig({ schema, file, env: {}, withoutSecrets: true }))
}

async function faultsBy(loading: Promise<unknown>): Promise<ConfigFault[]> {
  try {
    await loading
    return []
  } catch (error) {
    return [...((error as { faults?: ConfigFault[] }).faults ?? [])]
  }
}

for (const service of NAMES) {
  const { sound, marked, unmarked } = FAULTY[service]

  t.test(`${service}: a configuration without a fault`, async (t) => {
    t.strictSame(await faultsOf(service, sound), [])
    t.strictSame(markedBy(service, parse(sound)), [])
  })

  t.test(`${service}: faults that both see, at the same place`, async (t) => {
    for (const fault of marked) {
      const text = withFault(sound, fault)
      const [first] = await faultsOf(service, text)
      const paths = markedBy(service, parse(text))
      const path = first?.path ?? 'none'
      const isThere = paths.some(
        (at) => at === path || folderOf(at) === path || at === folderOf(path),
      )
      t.ok(isThere, `${fault[0]}: ${path}`, { paths })
    }
  })

  t.test(`${service}: faults that only check-config sees`, async (t) => {
    for (const fault of unmarked) {
      const text = withFault(sound, fault)
      t.not((await faultsOf(service, text)).length, 0, fault[0])
      t.strictSame(markedBy(service, parse(text)), [], fault[0])
    }
  })

  t.test(`${service}: each value may be a variable of the environment`, async (t) => {
    const places = placesIn(sound).filter(({ isTag }) => !isTag)
    t.ok(places.length > 20)
    for (const { path, value, write } of places) {
      const text = write(`$\{VALUE}`)
      t.strictSame(await faultsOf(service, text, { VALUE: String(value) }), [], path)
      t.strictSame(markedBy(service, parse(text)), [], path)
    }
  })

  t.test(`${service}: whatever is left out`, async (t) => {
    for (const at of membersIn(parse(sound))) {
      const copy = parseDocument(sound)
      copy.deleteIn(at)
      await checkBoth(t, service, String(copy), at.join('/'))
    }
  })

  t.test(`${service}: whatever is written in the place of a value`, async (t) => {
    for (const { path, write } of placesIn(sound))
      for (const other of [7, true, null, '', 'x', '5m', [], ['x'], { x: 1 }]) {
        await checkBoth(t, service, write(other), `${path}: ${JSON.stringify(other)}`)
      }
  })
}

/** Tells whether the two agree on a text: what editors mark is a fault, and what they do not mark has no faulty values. */
async function checkBoth(t: Test, service: Service, text: string, title: string): Promise<void> {
  if (markedBy(service, parse(text)).length > 0)
    t.not((await faultsOf(service, text)).length, 0, `${title} is a fault`)
  else t.strictSame((await valueFaultsOf(service, text)).filter(isNoSpan), [], title)
}

/** A member that is missing is reported at its own place, or at that of the mapping. */
const folderOf = (path: string) => path.slice(0, path.lastIndexOf('/'))

/** Units are beyond JSON Schema. */
const isNoSpan = ({ message }: ConfigFault) => !/^must be (from|at least) \d+\w+/.test(message)

/** Each scalar of a configuration, and how to write another value there. */
function placesIn(text: string) {
  return scalarsIn(parse(text)).map(({ at, value }) => ({
    path: at.join('/'),
    value,
    // Which variant is meant has to be said with a word.
    isTag: at.at(-1) === 'type' && String(at) !== 'issuers,0,type',
    write(other: unknown) {
      const copy = parseDocument(text)
      copy.setIn(at, copy.createNode(other))
      return String(copy)
    },
  }))
}

type Place = readonly (string | number)[]

/** Each member and item of a configuration. */
function membersIn(value: unknown, at: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return []
  const isList = Array.isArray(value)
  return Object.entries(value).flatMap(([key, one]) => {
    const place = [...at, isList ? Number(key) : key]
    return [place, ...membersIn(one, place)]
  })
}

function scalarsIn(value: unknown, at: Place = []): { at: Place; value: unknown }[] {
  if (typeof value !== 'object' || value === null) return [{ at, value }]
  const isList = Array.isArray(value)
  return Object.entries(value).flatMap(([key, one]) =>
    scalarsIn(one, [...at, isList ? Number(key) : key]),
  )
}

t.test('the configurations of the tree', async (t) => {
  const files = execFileSync('git', ['ls-files', '*.yaml', '*.yml'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
  let count = 0
  for (const file of files.trim().split('\n')) {
    if (/^deploy\/helm|^pnpm-/.test(file)) continue
    const text = readFileSync(join(ROOT, file), 'utf8')
    const service = /^portals:/m.test(text)
      ? 'forward-auth'
      : /^auth:/m.test(text)
        ? 'cert-service'
        : undefined
    if (service === undefined) continue
    count += 1
    t.strictSame(markedBy(service, parse(text)), [], file)
    const [, schema = ''] =
      /^# yaml-language-server: \$schema=(\S+)$/m.exec(text.split('\n')[0] ?? '') ?? []
    t.equal(
      join(file, '..', schema),
      `docs/reference/${service}.schema.json`,
      `${file} names its schema`,
    )
  }
  t.ok(count > 10, `${count} files`)
})

t.test('the configurations of the documentation', async (t) => {
  const blocks = readDocuments('{docs,packages,services,examples}/**/*.md').flatMap(
    ({ blocks }) => blocks,
  )
  let count = 0
  for (const { file, line, info, text } of blocks) {
    const service =
      NAMES.find((name) => info === `yaml ${name}`) ??
      (info === 'yaml config.yaml' ? 'forward-auth' : undefined)
    if (service === undefined) continue
    count += 1
    t.strictSame(markedBy(service, completed(service, text)), [], `${file}:${line}`)
  }
  t.ok(count > 50, `${count} blocks`)
})

t.test('the entries for SchemaStore name the schemas', async (t) => {
  const text = readFileSync(join(ROOT, 'scripts/release/schemastore.json'), 'utf8')
  const entries: { name: string; fileMatch: string[]; url: string }[] = JSON.parse(text)
  t.strictSame(
    entries.map(({ url }) => url.replace(/^.*\/OWNER\/gatehouse\/main\//, '')).sort(),
    NAMES.map((service) => `docs/reference/${service}.schema.json`).sort(),
  )
  for (const { name, fileMatch } of entries) {
    const service = name.replace('Gatehouse ', '')
    t.ok(fileMatch.includes(`**/gatehouse/${service}/config.yaml`), 'the place that init suggests')
  }
})
