import { Duration, FilePath, Secret } from '@gatehouse/service-kit/config'
import t from 'tap'
import { Type } from 'typebox'
import { renderReference } from '../../reference/configuration.ts'

t.test('renderReference writes a row for each key', async (t) => {
  const schema = Type.Object({
    server: Type.Object(
      {
        port: Type.Integer({ default: 7401, description: 'Where it listens.' }),
        dataDir: FilePath('Its folder.'),
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
  t.equal(
    renderReference(schema, { title: 'Settings' }),
    `# Settings

| key | type | default | what it does |
| --- | --- | --- | --- |
| \`server\` | mapping |  | The listener. |
| \`server.port\` | integer | \`7401\` | Where it listens. |
| \`server.dataDir\` | path | required | Its folder. |
| \`grace\` | duration | \`10s\` |  |
| \`level\` | \`"info"\` or \`"debug"\` | required |  |
| \`keys\` | list of mapping | required |  |
| \`keys[].key\` | secret, or \`keyFile\` | required | a \\| b |
| \`issuers\` | mapping |  |  |
| \`issuers.<name>\` | mapping, see below |  |  |

## \`issuers.<name>\`

Each of them has these.

| key | type | default | what it does |
| --- | --- | --- | --- |
| \`issuers.<name>.kind\` | \`"ca" or "acme"\` | required | See below. |

## \`issuers.<name>\` with \`kind: ca\`

Our own.

## \`issuers.<name>\` with \`kind: acme\`

| key | type | default | what it does |
| --- | --- | --- | --- |
| \`issuers.<name>.email\` | string |  |  |
`,
  )
})

t.test('each variant of a union has a table with its own defaults', async (t) => {
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
  t.strictSame(page.match(/^## .*$/gm), [
    '## `providers[]`',
    '## `providers[]` with `type: a`',
    '## `providers[].proof` with `file`',
    '## `providers[].proof` with `id`',
    '## `providers[]` with `type: b`',
  ])
  const [, , a, file, , b] = page.split(/^## /m)
  t.match(a, '| `providers[].scopes` | list of string | `["x"]` | Of a. |')
  t.match(b, '| `providers[].scopes` | list of string | `["x","groups"]` | Of b. |')
  t.match(file, '| `providers[].proof.file` | path | `/a` |')
  t.match(page, '| `tls.certFile` | path | required |', 'a single mapping stays in its place')
})

t.test('what variants share is shown once', async (t) => {
  const Provider = (type: string) =>
    Type.Object({
      type: Type.Literal(type),
      name: Type.String(),
      scopes: Type.Array(Type.String(), { description: `Of ${type}.` }),
    })
  const schema = Type.Object({ providers: Type.Array(Type.Union([Provider('a'), Provider('b')])) })
  const [, , shared, a, b] = renderReference(schema, { title: 'P' }).split(/^#+ /m)
  const names = [shared, a, b].map((text) => text?.match(/(?<=\[\]\.)\w+/g))
  t.strictSame(names, [['type', 'name'], ['scopes'], ['scopes']])
})

t.test('a mapping that occurs again names the first one', async (t) => {
  const Listener = () => Type.Object({ host: Type.String(), port: Type.Integer() })
  const schema = Type.Object({
    own: Listener(),
    other: Listener(),
    third: Type.Object({ host: Type.String(), port: Type.Integer({ default: 1 }) }),
  })
  const page = renderReference(schema, { title: 'P' })
  t.match(page, '| `other` | mapping, as `own` | ')
  t.strictSame(page.match(/(?<=^\| `)[\w.]+/gm), [
    ...['own', 'own.host', 'own.port', 'other'],
    ...['third', 'third.host', 'third.port'],
  ])
})

t.test('a duration shows its limits', async (t) => {
  const schema = Type.Object({ life: Duration({ default: '8h', from: '1m', to: '90d' }) })
  t.match(renderReference(schema, { title: 'P' }), '| `life` | duration from 1m to 90d | `8h` |')
})
