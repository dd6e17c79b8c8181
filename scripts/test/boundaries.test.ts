import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  biggestRoom,
  exportsOf,
  importedBy,
  privatePackages,
  readTexts,
  readUnits,
  twoWayPairs,
} from '../sizes.ts'
import { ROOT } from './markdown.ts'
import { nodesOf, type Tree, treesOf } from './trees.ts'

const SOURCES = '{packages,services}/*/src/**/*.ts'

/** What a package may import of the others is drawn in docs/architecture.md, and is the dependencies of its manifest. */
t.test('each package depends on what the diagram shows', async (t) => {
  const drawn = diagramOf(readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8'))
  for (const [unit] of readUnits()) {
    const { dependencies = {} } = manifestOf(unit)
    const own = Object.keys(dependencies).filter((name) => name.startsWith('@gatehouse/'))
    const expected = drawn.get(unit)?.map((other) => other.replace(/^\w+/, '@gatehouse'))
    t.strictSame(own.sort(), expected?.sort(), unit)
    t.notOk(
      own.some((name) => name.endsWith('-service') || name === '@gatehouse/forward-auth'),
      `${unit} depends on no service`,
    )
  }
})

t.test('only services and two packages know Fastify', async (t) => {
  // Errors can be made with @fastify/error without a server.
  const isFastify = (name: string) => /^(fastify(-plugin)?|@fastify\/(?!error$).*)$/.test(name)
  const knowing = [...readUnits().keys()].filter((unit) => {
    return [...knownTo(unit)].some(isFastify)
  })
  t.strictSame(knowing, [
    'packages/auth-core',
    'packages/service-kit',
    'services/cert-service',
    'services/forward-auth',
  ])
})

t.test('cert-service loads the lists of profile, and no conditions', (t) => {
  const loaded = treesOf('services/cert-service/src/**/*.ts').flatMap(([file, nodes]) =>
    nodes
      .filter(({ type }) => /^(Import|Export).*(Declaration|Expression)$/.test(type))
      .map(({ source }) => ({ file, from: String(source?.value) }))
      .filter(({ from }) => from.startsWith('@gatehouse/profile')),
  )
  t.ok(loaded.length > 0)
  for (const { file, from } of loaded) t.equal(from, '@gatehouse/profile/allow', file)
  t.end()
})

t.test('what is imported is a dependency, or a file of the same package', async (t) => {
  for (const [unit, texts] of readUnits()) {
    t.strictSame(strangersOf(texts, knownTo(unit)), [], unit)
  }
  const table: [what: string, text: string, isStranger: boolean][] = [
    ['a dependency', "import { x } from '@gatehouse/net'\n", false],
    ['a part of a dependency', "export * from '@gatehouse/net/x'\n", false],
    ['what Node has', "import { x } from 'node:fs'\n", false],
    ['a file of the package', "import { x } from '../a.ts'\n", false],
    ['a package that is not listed', "import { x } from '@gatehouse/pki'\n", true],
    ['types of it', "import type { X } from '@gatehouse/pki'\n", true],
    ['what is loaded later', "await import('@gatehouse/pki')\n", true],
    ['a service', "export * from '@gatehouse/cert-service'\n", true],
    ['a file of another package', "import { x } from '../../../net/src/ip.ts'\n", true],
  ]
  for (const [what, text, isStranger] of table) {
    const strangers = strangersOf(new Map([['deep/b.ts', text]]), new Set(['@gatehouse/net']))
    t.equal(strangers.length > 0, isStranger, what)
  }
})

interface Manifest {
  readonly private?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** What a package may import. The app of a plugin has Fastify, whose version the plugin checks when it is registered. */
function knownTo(unit: string): Set<string> {
  const { dependencies = {}, peerDependencies } = manifestOf(unit)
  const isPlugin = 'fastify-plugin' in dependencies
  return new Set([
    ...Object.keys({ ...dependencies, ...peerDependencies }),
    ...(isPlugin ? ['fastify'] : []),
  ])
}

function manifestOf(unit: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, unit, 'package.json'), 'utf8'))
}

/** The arrows of the first diagram: from each folder of a package or service to the folders that it may import. */
function diagramOf(page: string): ReadonlyMap<string, readonly string[]> {
  const lines = /```mermaid\n([^`]*)```/.exec(page)?.[1]?.split('\n') ?? []
  const nodes = lines.flatMap((line) => {
    const [, id, folder, others = ''] = /^ *(\w+)\["([^"]+)"\](?: --> ([\w &]+))?$/.exec(line) ?? []
    return id && folder ? [{ id, folder, others: others.split(/[ &]+/).filter(Boolean) }] : []
  })
  const folderOf = new Map(nodes.map(({ id, folder }) => [id, folder]))
  return new Map(
    nodes.map(({ folder, others }) => [folder, others.map((id) => folderOf.get(id) ?? id)]),
  )
}

/** What files import that is neither known, nor of Node, nor theirs. */
function strangersOf(texts: ReadonlyMap<string, string>, known: ReadonlySet<string>): string[] {
  return [...texts].flatMap(([file, text]) =>
    importedBy(text).filter((from) => {
      if (from.startsWith('.')) return join(file, '..', from).startsWith('..')
      const [scope = '', name] = from.split('/')
      return (
        !from.startsWith('node:') && !known.has(scope.startsWith('@') ? `${scope}/${name}` : scope)
      )
    }),
  )
}

t.test('no two rooms of a package or service import each other', async (t) => {
  const units = readUnits()
  t.ok(units.size >= 9)
  for (const [unit, texts] of units) {
    t.ok(texts.size >= 5, `${unit} has rooms`)
    t.strictSame(twoWayPairs(texts), [], unit)
  }
})

t.test('the name of a type has one meaning', (t) => {
  const files = new Map<string, Set<string>>()
  for (const [file, text] of readTexts(SOURCES))
    for (const [, name = ''] of text.matchAll(
      /^(?:export )?(?:abstract )?(?:interface|type|class) (\w+)/gm,
    ))
      files.set(name, (files.get(name) ?? new Set()).add(file))
  t.ok(files.size > 1_000)
  const common = [...files].filter(([, { size }]) => size > 2)
  t.ok(common.length <= 5, `in three files or more: ${common.map(([name]) => name).join(', ')}`)
  t.end()
})

t.test('no room of a package or service is too big', async (t) => {
  for (const [unit, texts] of readUnits()) {
    const { name, lines, most } = biggestRoom(unit, texts)
    t.ok(lines <= most, `${unit}: ${name} has ${lines} lines of at most ${most}`)
  }
})

t.test('a package for Gatehouse alone has a small front, all of it used', async (t) => {
  const users = [...readTexts('{packages,services,examples,scripts,bench}/**/*.ts')].filter(
    ([file]) => !/\/(node_modules|dist)\//.test(file),
  )
  for (const unit of privatePackages()) {
    const index = `${unit}/src/index.ts`
    const text = readTexts(index).get(index) ?? ''
    const names = exportsOf(text)
    t.ok(names.length > 0 && names.length <= 16, `${unit} exports ${names.length} names`)
    t.notMatch(text, /export \*|export (const|function|class|interface|type \w)/, 'each is listed')
    const imported = new Set(users.flatMap(([file, text]) => importsOf(unit, file, text)))
    for (const name of names) t.ok(imported.has(name), `somebody imports ${name} of ${unit}`)
  }
})

/** The names that a file of another unit imports from a package. */
function importsOf(unit: string, file: string, text: string): string[] {
  if (file.startsWith(`${unit}/`)) return []
  const name = unit.replace('packages', '@gatehouse')
  const lists = text.matchAll(/\{([^{}]*)\}\s*(?:from|= await import\()\s*'([^']+)'/g)
  return [...lists].flatMap(([, list = '', from]) =>
    from === name
      ? list.split(',').flatMap((item) => /^(?:type\s+)?(\w+)/.exec(item.trim())?.[1] ?? [])
      : [],
  )
}

/** A table, a list of options and a template may be long: a function does too much by its statements. */
const STATEMENTS = 25

t.test('no function has too many statements', (t) => {
  for (const [file, nodes] of treesOf(SOURCES))
    for (const node of nodes) {
      if (!node.type.includes('Function')) continue
      const count = statementsOf(node)
      if (count > STATEMENTS) t.fail(`${file}:${node.loc?.start.line} has ${count} statements`)
    }
  t.end()
})

/** How many statements a function has, without those of the functions in it. */
function statementsOf({ body }: Tree): number {
  const inner = new Set<Tree>()
  let count = 0
  for (const node of nodesOf(body)) {
    if (inner.has(node)) continue
    if (node.type.includes('Function')) for (const below of nodesOf(node)) inner.add(below)
    else if (/(Statement|VariableDeclaration)$/.test(node.type) && node.type !== 'BlockStatement')
      count++
  }
  return count
}

t.test('no line is too long to read', async (t) => {
  const texts = readTexts(SOURCES)
  t.ok(texts.size > 100)
  for (const [file, text] of texts)
    for (const [at, line] of text.split('\n').entries())
      if (line.length > 140) t.fail(`${file}:${at + 1} has ${line.length} characters`)
})

/** Lines that hold no text of others, or whose text was escaped when it was logged. */
const PRINTED_AS_IS = [
  ' marked TODO; check-config refuses the file until you decide\\n`)',
  "process.stdout.write(waiting.join(''))",
]

t.test('what is printed is without what a terminal obeys', async (t) => {
  const printing = [...readTexts(SOURCES)].flatMap(([file, text]) =>
    text
      .split('\n')
      .filter((line) => /\bstd(out|err)\.write\(|\bconsole\.\w/.test(line))
      .map((line) => [file, line] as const),
  )
  t.ok(printing.length > 4)
  for (const [file, line] of printing)
    if (!PRINTED_AS_IS.some((known) => line.includes(known)))
      t.match(line, /\.write\((escaped|printable)\(|\.write\(`\$\{printable\([^`]*\)\}\\n`\)/, file)
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
