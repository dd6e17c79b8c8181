import t from 'tap'
import { renderSettings } from '../../reference/settings.ts'

t.test('renderSettings writes a row for the settings of each fate', async (t) => {
  const table = [
    { names: ['name'], becomes: '`title`' },
    { names: ['off', 'list.$.x'], note: 'no `need`, a | b' },
  ]
  t.equal(
    renderSettings(table, 'theirs'),
    `| theirs | Gatehouse | |
| --- | --- | --- |
| \`name\` | \`title\` |  |
| \`off\`, \`list.$.x\` | none | no \`need\`, a \\| b |
`,
  )
})
