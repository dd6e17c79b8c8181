import t from 'tap'
import { Type } from 'typebox'
import { Duration, FilePath, renderReference, Secret } from '../../src/index.ts'

t.test('renderReference writes a row for each key', async (t) => {
  const schema = Type.Object({
    server: Type.Object(
      {
        port: Type.Integer({ default: 7401, description: 'Where it listens.' }),
        dataDir: FilePath({ description: 'Its folder.' }),
      },
      { description: 'The listener.' },
    ),
    grace: Type.Optional(Duration({ default: '10s' })),
    level: Type.Union([Type.Literal('info'), Type.Literal('debug')]),
    keys: Type.Array(Type.Object({ key: Secret({ description: 'a | b' }) })),
    issuers: Type.Record(
      Type.String(),
      Type.Union([
        Type.Object({ kind: Type.Literal('ca') }),
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
| \`issuers.<name>\` | mapping |  |  |
| \`issuers.<name>.kind\` | \`"ca"\` or \`"acme"\` | required |  |
| \`issuers.<name>.email\` | string |  |  |
`,
  )
})
