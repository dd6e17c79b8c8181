import { Duration, FilePath, Secret } from '@gatehouse/service-kit/config'
import t from 'tap'
import { Type } from 'typebox'
import { renderReference } from '../../reference/configuration.ts'
import { anchorsOf, parseDocument, readDocument } from '../markdown.ts'

t.test('renderReference writes a block for each key, below that of its mapping', async (t) => {
  const schema = Type.Object({
    server: Type.Object(
      {
        port: Type.Integer({ default: 7401, description: 'Where it listens.' }),
        tls: Type.Object({ keyFile: FilePath('Its key.') }),
      },
      { description: 'The listener.' },
    ),
    grace: Type.Optional(Duration({ default: '10s' })),
    level: Type.Union([Type.Literal('info'), Type.Literal('debug')]),
    keys: Type.Array(Type.Object({ key: Secret('a | b') })),
    issuers: Type.Record(
      Type.String(),
      Type.Union([
        Type.Object({ kind: Type.Literal('ca', { description: 'Our own.' }) }),
        Type.Object({ kind: Type.Literal('acme'), email: Type.Optional(Type.String()) }),
      ]),
    ),
  })
  const page = renderReference(schema, { title: 'Settings' })
  const [title, , contents, ...blocks] = page.trimEnd().split('\n\n')
  t.equal(title, '# Settings')
  t.equal(
    contents,
    `- [\`server\`](#server): [\`tls\`](#servertls)
- [\`grace\`](#grace)
- [\`level\`](#level)
- [\`keys\`](#keys)
- [\`issuers\`](#issuers): [\`<name>\`](#issuersname)`,
  )
  t.strictSame(blocks, [
    ...['## `server`', 'mapping', 'The listener.'],
    ...['### `server.port`', 'integer, default `7401`', 'Where it listens.'],
    ...['### `server.tls`', 'mapping'],
    ...['#### `server.tls.keyFile`', 'path, required', 'Its key.'],
    ...['## `grace`', 'duration, default `10s`'],
    ...['## `level`', '`"info"` or `"debug"`, required'],
    ...['## `keys`', 'list of mapping, required'],
    ...['### `keys[].key`', 'secret, or `keyFile`, required', 'a | b'],
    ...['## `issuers`', 'mapping'],
    ...['### `issuers.<name>`', 'mapping'],
    ...['#### `issuers.<name>.kind`', '`"ca" or "acme"`, required', 'Each has keys of its own.'],
    ...['#### `issuers.<name>` with `kind: ca`', 'Our own.'],
    '#### `issuers.<name>` with `kind: acme`',
    ...['##### `issuers.<name>.email` (acme)', 'string'],
  ])
  const anchors = anchorsOf(parseDocument('x.md', page))
  for (const [, anchor = ''] of page.matchAll(/\]\(#([^)]+)\)/g)) t.ok(anchors.includes(anchor))
})

t.test('each key of a service has an anchor of its own, which no other key changes', async (t) => {
  for (const service of ['cert-service', 'forward-auth', 'errors', 'command-line']) {
    const anchors = anchorsOf(readDocument(`docs/reference/${service}.md`))
    t.ok(anchors.length > 30)
    t.strictSame(
      anchors.filter(
        (anchor) => anchors.includes(anchor.replace(/-\d+$/, '')) && /-\d+$/.test(anchor),
      ),
      [],
      `${service}: none is told from another by a number`,
    )
  }
})

t.test('each variant of a union has its own keys, with its own defaults', async (t) => {
  const Inner = Type.Union([
    Type.Object({ file: FilePath('A folder.', { default: '/a' }) }),
    Type.Object({ id: Type.String() }),
  ])
  const Provider = (type: string, scopes: string[]) =>
    Type.Object({
      type: Type.Literal(type),
      scopes: Type.Array(Type.String(), { default: scopes, description: `Of ${type}.` }),
    })
  const schema = Type.Object({
    providers: Type.Array(
      Type.Union([
        Type.Object({ ...Provider('a', ['x']).properties, proof: Inner }),
        Provider('b', ['x', 'groups']),
      ]),
    ),
    tls: Type.Union([Type.Literal('off'), Type.Object({ certFile: FilePath('A file.') })]),
  })
  const page = renderReference(schema, { title: 'P' })
  t.strictSame(page.match(/^#+ .* with .*$/gm), [
    '### `providers[]` with `type: a`',
    '##### `providers[].proof` with `file`',
    '##### `providers[].proof` with `id`',
    '### `providers[]` with `type: b`',
  ])
  t.match(page, '#### `providers[].scopes` (a)\n\nlist of string, default `["x"]`\n\nOf a.')
  t.match(
    page,
    '#### `providers[].scopes` (b)\n\nlist of string, default `["x","groups"]`\n\nOf b.',
  )
  t.match(page, '##### `providers[].proof.file` (a)\n\npath, default `/a`')
  t.match(page, '### `tls.certFile`\n\npath, required', 'a single mapping stays in its place')
})

t.test('what variants share is shown once', async (t) => {
  const Provider = (type: string) =>
    Type.Object({
      type: Type.Literal(type),
      name: Type.String(),
      scopes: Type.Array(Type.String(), { description: `Of ${type}.` }),
    })
  const schema = Type.Object({ providers: Type.Array(Type.Union([Provider('a'), Provider('b')])) })
  t.strictSame(renderReference(schema, { title: 'P' }).match(/^#+ .*$/gm), [
    ...['# P', '## `providers`', '### `providers[].type`', '### `providers[].name`'],
    ...['### `providers[]` with `type: a`', '#### `providers[].scopes` (a)'],
    ...['### `providers[]` with `type: b`', '#### `providers[].scopes` (b)'],
  ])
})

t.test('a mapping that occurs again names the first one', async (t) => {
  const Listener = () => Type.Object({ host: Type.String(), port: Type.Integer() })
  const schema = Type.Object({
    own: Listener(),
    other: Listener(),
    third: Type.Object({ host: Type.String(), port: Type.Integer({ default: 1 }) }),
  })
  const page = renderReference(schema, { title: 'P' })
  t.match(page, '## `other`\n\nmapping, as `own`\n')
  t.strictSame(page.match(/(?<=^#+ `)[\w.]+/gm), [
    ...['own', 'own.host', 'own.port', 'other'],
    ...['third', 'third.host', 'third.port'],
  ])
})

t.test('a duration shows its limits', async (t) => {
  const schema = Type.Object({ life: Duration({ default: '8h', from: '1m', to: '90d' }) })
  const page = renderReference(schema, { title: 'P' })
  t.match(page, '## `life`\n\nduration from 1m to 90d, default `8h`\n')
})
