import { join } from 'node:path'
import t from 'tap'
import { nodesOf, type Tree, treesOf } from './trees.ts'

interface Plugin {
  readonly file: string
  readonly name: string
  readonly dependencies: readonly string[]
  readonly takesApp: boolean
  /** Of the plugin, and of its whole file if there is no other one in it. */
  readonly nodes: readonly Tree[]
}

const memberOf = (node: Tree, key: string): Tree | undefined =>
  node.properties.find((one: Tree) => one.key?.name === key)?.value

/** The plugins that have a name: what `fp` gets as its second argument. */
function pluginsOf([file, nodes]: ReturnType<typeof treesOf>[number]): Plugin[] {
  const plugins = nodes.flatMap((node) => {
    const named = node.type === 'CallExpression' && node.callee.name === 'fp' && node.arguments[1]
    if (!named) return []
    const dependencies = memberOf(named, 'dependencies')?.elements ?? []
    return [
      {
        file,
        name: memberOf(named, 'name')?.value,
        dependencies: dependencies.map(({ value }: Tree) => value),
        takesApp: node.arguments[0].params?.length !== 0,
        nodes: [...nodesOf(node)],
      },
    ]
  })
  const isOfFile = plugins.length === 1 && plugins[0]?.takesApp
  return isOfFile ? plugins.map((plugin) => ({ ...plugin, nodes })) : plugins
}

/** The decorators that the file of a plugin adds. */
function* added({ nodes }: Plugin): Generator<string> {
  for (const { type, callee, arguments: given } of nodes)
    if (
      type === 'CallExpression' &&
      /^decorate(Request|Reloaded)?$/.test(callee.property?.name) &&
      given[0].type === 'Literal'
    )
      yield given[0].value
}

/** `app`, `this.#app`, `server`, `request.server` */
const isApp = (node: Tree | null): boolean => /^(app|server)$/.test((node?.property ?? node)?.name)

const OF_APP = /^: (?:Pick<)?FastifyInstance\b/

/**
 * The members of the app that syntax uses: `app.store`, `{ store } = this.#app`, `{ server: { store } }`,
 * `({ store }: FastifyInstance)`.
 */
function* used(nodes: readonly Tree[], text: string): Generator<string> {
  for (const node of nodes) {
    const { type, object, property, init, id, key, value } = node
    if (type === 'MemberExpression' && isApp(object)) yield property.name
    const isTyped = type === 'ObjectPattern' && OF_APP.test(text.slice(node.end, node.end + 40))
    const pattern = isTyped ? node : isApp(init) ? id : isApp(key) ? value : undefined
    if (pattern?.type === 'ObjectPattern') for (const { key } of pattern.properties) yield key?.name
  }
}

/** What syntax names, but for members. */
function namesIn(nodes: readonly Tree[]): ReadonlySet<string> {
  const members = new Set(nodes.flatMap(({ property, key }) => [property, key]))
  const names = nodes.filter((node) => node.type === 'Identifier' && !members.has(node))
  return new Set(names.map(({ name }) => name))
}

type Files = ReadonlyMap<string, readonly [nodes: readonly Tree[], text: string]>

/** The functions and classes of our own that names in a file stand for, each with its file. */
function* declared(
  files: Files,
  file: string,
  names: ReadonlySet<string>,
): Generator<readonly [string, Tree]> {
  for (const node of files.get(file)?.[0] ?? []) {
    if (/^(Function|Class)Declaration$/.test(node.type) && names.has(node.id.name))
      yield [file, node]
    if (node.type !== 'ImportDeclaration' || !node.source.value.startsWith('.')) continue
    const imported = node.specifiers
      .filter(({ local }: Tree) => names.has(local.name))
      .map(({ imported }: Tree) => imported.name)
    yield* declared(files, join(file, '..', node.source.value), new Set(imported))
  }
}

/** The members of the app that syntax uses, and that the functions and classes use that it names. */
function* usedThrough(
  files: Files,
  file: string,
  nodes: readonly Tree[],
  seen = new Set<Tree>(),
): Generator<string> {
  yield* used(nodes, files.get(file)?.[1] ?? '')
  for (const [at, node] of declared(files, file, namesIn(nodes))) {
    if (seen.has(node)) continue
    seen.add(node)
    yield* usedThrough(files, at, [...nodesOf(node)], seen)
  }
}

const registersAuth = ({ nodes }: Plugin): boolean =>
  nodes.some(
    ({ type, callee, arguments: given }) =>
      type === 'CallExpression' && callee.property?.name === 'register' && given[0].name === 'auth',
  )

t.test('a plugin names the plugins whose decorators it uses', async (t) => {
  for (const place of ['services/cert-service', 'services/forward-auth', 'packages/service-kit']) {
    const trees = treesOf(`{${place},packages/service-kit,packages/auth-core}/src/**/*.ts`)
    const files: Files = new Map(trees.map(([file, ...read]) => [file, read]))
    const plugins = trees.flatMap(pluginsOf).filter(({ name }) => name)
    const owners = new Map<string, string>()
    for (const plugin of plugins) for (const name of added(plugin)) owners.set(name, plugin.name)
    t.ok(plugins.length > 10 && owners.size > 5)
    for (const plugin of plugins) {
      const { file, name, dependencies } = plugin
      if (!file.startsWith(place)) continue
      const inFile = new Set(plugins.filter((one) => one.file === file).map((one) => one.name))
      if (registersAuth(plugin)) inFile.add('@gatehouse/auth-core')
      const needed = new Set(
        [...usedThrough(files, file, plugin.nodes)].flatMap((member) => owners.get(member) ?? []),
      )
      const lacking = [...needed].filter((one) => !inFile.has(one) && !dependencies.includes(one))
      t.strictSame(lacking, [], `${name} names what it needs`)
    }
  }
})
