import t from 'tap'
import { labelled, table } from '../../src/commands/table.ts'

t.test('columns are as wide as they need to be, and empty ones are left out', (t) => {
  const rows = [
    ['a.test', '', 'ca'],
    ['much-longer.test', '', 'acme\u001b[31m'],
  ]
  t.equal(
    table(['NAME', 'FAILURE', 'ISSUER'], rows),
    `NAME              ISSUER
a.test            ca
much-longer.test  acme\\u001b[31m
`,
  )
  t.equal(labelled({ a: '1', 'long label': 'x\ny' }), 'a           1\nlong label  x y\n')
  t.end()
})
