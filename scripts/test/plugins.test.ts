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
function pluginsOf([file, nodes]: readonly [string, readonly Tree[]]): Plugin[] {
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

const isApp = (node: Tree | null): boolean =>
  node?.type === 'Identifier' ? node.name === 'app' : node?.property?.name === 'server'

/** The members of the app that the file of a plugin uses: `app.store`, `{ store } = request.server`. */
function* used({ nodes }: Plugin): Generator<string> {
  for (const node of nodes) {
    if (node.type === 'MemberExpression' && isApp(node.object)) yield node.property.name
    if (node.type === 'VariableDeclarator' && isApp(node.init) && node.id.type === 'ObjectPattern')
      for (const { key } of node.id.properties) yield key?.name
  }
}

const registersAuth = ({ nodes }: Plugin): boolean =>
  nodes.some(
    ({ type, callee, arguments: given }) =>
      type === 'CallExpression' && callee.property?.name === 'register' && given[0].name === 'auth',
  )

t.test('a plugin names the plugins whose decorators it uses', async (t) => {
  for (const place of ['services/cert-service', 'services/forward-auth', 'packages/service-kit']) {
    const plugins = treesOf(`{${place},packages/service-kit,packages/auth-core}/src/**/*.ts`)
      .flatMap(pluginsOf)
      .filter(({ name }) => name)
    const owners = new Map<string, string>()
    for (const plugin of plugins) for (const name of added(plugin)) owners.set(name, plugin.name)
    t.ok(plugins.length > 10 && owners.size > 5)
    for (const plugin of plugins) {
      const { file, name, dependencies } = plugin
      if (!file.startsWith(place)) continue
      const inFile = new Set(plugins.filter((one) => one.file === file).map((one) => one.name))
      if (registersAuth(plugin)) inFile.add('@gatehouse/auth-core')
      const needed = new Set([...used(plugin)].flatMap((member) => owners.get(member) ?? []))
      const lacking = [...needed].filter((one) => !inFile.has(one) && !dependencies.includes(one))
      t.strictSame(lacking, [], `${name} names what it needs`)
    }
  }
})
