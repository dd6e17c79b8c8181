import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { ROOT } from './markdown.ts'

const FORBIDDEN: readonly [file: string, source: string, message: string][] = [
  [
    'packages/net/src/a.ts',
    "import type { X } from '@gatehouse/pki'\nexport type Y = X\n",
    'which packages this one may import',
  ],
  [
    'packages/acme/src/a.ts',
    "export const x = await import('@gatehouse/auth-core')\n",
    'which packages this one may import',
  ],
  ['packages/pki/src/a.ts', "export const x = await import('fastify')\n", 'know Fastify'],
  ['packages/postgres/src/a.ts', "export const x = await import('fastify')\n", 'know Fastify'],
  [
    'packages/postgres/src/b.ts',
    "export * from '@gatehouse/service-kit'\n",
    'which packages this one may import',
  ],
  [
    'packages/service-kit/src/b.ts',
    "export const x = await import('@gatehouse/postgres')\n",
    'which packages this one may import',
  ],
  ['packages/profile/src/a.ts', "export * from '../../net/src/ip.ts'\n", 'other packages by name'],
  [
    'services/cert-service/src/a.ts',
    "export * from '../../../packages/pki/src/names.ts'\n",
    'other packages by name',
  ],
  [
    'packages/service-kit/src/a.ts',
    "export * from '@gatehouse/profile'\n",
    'which packages this one may import',
  ],
  [
    'services/cert-service/src/b.ts',
    "export * from '@gatehouse/profile'\n",
    'which packages this one may import',
  ],
  [
    'services/forward-auth/src/a.ts',
    "export * from '@gatehouse/acme'\n",
    'which packages this one may import',
  ],
]

const ALLOWED: readonly [file: string, source: string][] = [
  ['packages/postgres/src/ok.ts', "export * from '@gatehouse/net'\nexport * from 'pg'\n"],
  ['services/forward-auth/src/ok.ts', "export const x = await import('@gatehouse/postgres')\n"],
  ['packages/acme/src/ok.ts', "export * from '@gatehouse/pki'\nexport * from './b.ts'\n"],
  ['packages/auth-core/src/ok.ts', "export * from '@gatehouse/profile/from-claims'\n"],
  ['services/cert-service/src/also-ok.ts', "export * from '@gatehouse/profile/allow'\n"],
  ['services/cert-service/src/ok.ts', "export * from 'fastify'\nexport * from '@gatehouse/net'\n"],
]

t.test('the linter refuses imports against the direction of the packages', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-imports-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await cp(join(ROOT, 'biome.json'), join(folder, 'biome.json'))
  for (const [file, source] of [...FORBIDDEN, ...ALLOWED]) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), source)
  }
  const biome = join(ROOT, 'node_modules/.bin/biome')
  const args = ['lint', '--only=style/noRestrictedImports', '--vcs-enabled=false']
  const { stdout, stderr } = spawnSync(biome, [...args, '--reporter=github', '.'], {
    cwd: folder,
    encoding: 'utf8',
  })
  const lines = `${stdout}${stderr}`.split('\n')
  const linesOf = (file: string) => lines.filter((line) => line.includes(file))
  for (const [file, , message] of FORBIDDEN)
    t.match(linesOf(file).join('\n'), message, `${file} is refused`)
  for (const [file] of ALLOWED) t.strictSame(linesOf(file), [], `${file} is accepted`)
})

t.test('every package has its rule', async (t) => {
  const { overrides } = JSON.parse(readFileSync(join(ROOT, 'biome.json'), 'utf8'))
  const ruled = overrides.flatMap(({ includes }: { includes: string[] }) => includes)
  for (const reference of JSON.parse(readFileSync(join(ROOT, 'tsconfig.json'), 'utf8')).references)
    if (/^(packages|services)\//.test(reference.path))
      t.ok(ruled.includes(`${reference.path}/src/**`), reference.path)
})
