import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { linesOf, readTexts, readUnits, TARGETS, twoWayPairs } from '../sizes.ts'
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
  ['packages/store/src/a.ts', "export const x = await import('fastify')\n", 'know Fastify'],
  [
    'packages/store/src/b.ts',
    "export * from '@gatehouse/service-kit'\n",
    'which packages this one may import',
  ],
  [
    'packages/service-kit/src/b.ts',
    "export const x = await import('@gatehouse/store')\n",
    'which packages this one may import',
  ],
  ['packages/issuance/src/a.ts', "export const x = await import('fastify')\n", 'know Fastify'],
  [
    'packages/cert-store/src/a.ts',
    "export * from '@gatehouse/issuance'\n",
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
  ['packages/issuance/src/ok.ts', "export * from '@gatehouse/cert-store/port'\n"],
  ['packages/store/src/ok.ts', "export * from '@gatehouse/net'\nexport * from 'pg'\n"],
  ['services/forward-auth/src/ok.ts', "export const x = await import('@gatehouse/store')\n"],
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

t.test('no two rooms of a package or service import each other', async (t) => {
  const units = readUnits()
  t.ok(units.size >= 9)
  for (const [unit, texts] of units) {
    t.ok(texts.size > 5, `${unit} has rooms`)
    t.strictSame(twoWayPairs(texts), [], unit)
  }
})

t.test('no more lines than the targets allow', async (t) => {
  for (const { title, pattern, target, most = target } of TARGETS) {
    const lines = linesOf(readTexts(pattern))
    t.ok(lines > 0 && lines <= most, `${title}: ${lines} of at most ${most}`)
    if (most !== target)
      t.ok(lines > target, `${title}: what is reached is held, so at most ${target}`)
  }
})

t.test('whatever imports is seen', async (t) => {
  const back = ['b/2.ts', "import '../a/1.ts'\n"] as const
  const table: [what: string, file: string, text: string, isPair: boolean][] = [
    ['a value', 'a/1.ts', "import { x } from '../b/2.ts'\n", true],
    ['a type', 'a/1.ts', "import type { X } from '../b/3.ts'\n", true],
    ['several lines', 'a/1.ts', "import {\n  x,\n} from '../b/2.ts'\n", true],
    ['a type in place', 'a/1.ts', "type X = typeof import('../b/2.ts')\n", true],
    ['what is loaded later', 'a/1.ts', "await import(\n  '../b/2.ts'\n)\n", true],
    ['what is passed on', 'a/deep/1.ts', "export * from '../../b/deep/2.ts'\n", true],
    ['a file of the room', 'a/1.ts', "import { x } from './b/2.ts'\n", false],
    ['a file with the name of the room', 'a/1.ts', "import { x } from '../b.ts'\n", false],
    ['a package', 'a/1.ts', "import { x } from 'b/2.ts'\n", false],
  ]
  for (const [what, file, text, isPair] of table) {
    const expected = isPair ? [`a and b: ${file}, b/2.ts`] : []
    t.strictSame(twoWayPairs(new Map([[file, text], back])), expected, what)
  }
  const top = new Map([
    ['a.ts', "import './b.ts'\n"],
    ['b.ts', "import './a.ts'\nimport './c.ts'\n"],
  ])
  t.strictSame(twoWayPairs(top), ['a.ts and b.ts: a.ts, b.ts'], 'files right below src')
})
