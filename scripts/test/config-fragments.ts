import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { ROOT } from './markdown.ts'

const CA_FILE = join(ROOT, 'services/forward-auth/test/fixtures/client-ca.cert.pem')

type Mapping = Record<string, unknown>

const PORTAL = {
  name: 'main',
  providers: [
    {
      type: 'openIDConnect',
      name: 'corp',
      issuerUrl: 'https://id.example.com',
      clientId: 'gatehouse',
      clientSecret: 'some-secret',
    },
  ],
}

/** What a fragment leaves out that the service cannot do without. */
const SERVICES = {
  'cert-service': {
    load: loadCertConfig,
    complete: (given: Mapping) => ({ auth: { psk: { key: 'k'.repeat(32) } }, ...given }),
  },
  'forward-auth': {
    load: loadForwardAuthConfig,
    complete: ({ portals = [{}], ...given }: Mapping) => ({
      domains: [{ domain: 'example.com', authHost: 'auth.example.com' }],
      ...given,
      portals: (portals as Mapping[]).map((portal) => ({ ...PORTAL, ...portal })),
    }),
  },
} as const

/** A part of a configuration, as the value of a whole one. */
export function completed(service: keyof typeof SERVICES, text: string): Mapping {
  return SERVICES[service].complete(parse(text))
}

/**
 * Loads a part of a configuration, completed, as the service does, and gives its value.
 *
 * @throws ConfigError with every fault of it
 */
export async function loadFragment(
  t: Pick<Test, 'teardown'>,
  service: keyof typeof SERVICES,
  text: string,
): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), 'gh-docs-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const files = {
    secret: join(folder, 'secret'),
    next: join(folder, 'next'),
    database: join(folder, 'database'),
    hook: join(folder, 'hook'),
    image: join(folder, 'image'),
    ca: CA_FILE,
  }
  writeFileSync(files.secret, 's'.repeat(64))
  writeFileSync(files.next, 'n'.repeat(64))
  writeFileSync(files.hook, 'https://hooks.example.com/services/secret')
  writeFileSync(files.image, '<svg xmlns="http://www.w3.org/2000/svg"/>')
  writeFileSync(files.database, 'postgres://gatehouse:secret@db.example.com/gatehouse')
  const { load } = SERVICES[service]
  const file = join(folder, 'config.yaml')
  writeFileSync(file, stringify(withFiles(completed(service, text), files)))
  return (await load(file, {})).value
}

/** With files that are there in the place of those that are named. */
function withFiles(
  value: unknown,
  files: Readonly<Record<'secret' | 'next' | 'database' | 'hook' | 'image' | 'ca', string>>,
): unknown {
  if (Array.isArray(value)) return value.map((item) => withFiles(item, files))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (key === 'keyFiles') return [key, [files.next, files.secret]]
      if (key === 'caFile') return [key, files.ca]
      if (/\.(svg|png|ico)$/.test(String(item))) return [key, files.image]
      if (key === 'urlFile') return [key, 'type' in value ? files.hook : files.database]
      const isSecret = key.endsWith('File') && key !== 'masterKeyFile'
      return [key, isSecret ? files.secret : withFiles(item, files)]
    }),
  )
}
