import t from 'tap'
import { isVariables, readVariables } from '../src/formats.ts'

t.test('variables are most of the lines of their file', async (t) => {
  const table: [text: string, is: boolean][] = [
    ['A=1\nB: 2\n', true],
    ['# x\n\nA=1\nexport B=2\nc = 3\n', true],
    ['A=1\nb = 2\n', false],
    ['A=1\nb = 2\nc = 3\n', false],
    ['', false],
  ]
  for (const [text, is] of table) t.equal(isVariables(text), is, JSON.stringify(text))
})

t.test('of a variable that is set twice, the last counts, with its line', async (t) => {
  t.strictSame(readVariables('A=1\n# A=2\nB=x\nexport A=3\n'), [
    { spelling: 'A', values: ['3'], line: 4 },
    { spelling: 'B', values: ['x'], line: 3 },
  ])
})
