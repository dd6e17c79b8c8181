import t from 'tap'
import { hasTag } from '../../src/http/conditional.ts'

t.test('which If-None-Match holds a tag', async (t) => {
  const cases: [header: string | undefined, has: boolean][] = [
    [undefined, false],
    ['"a"', true],
    ['W/"a"', true],
    ['"b", W/"a"', true],
    ['"b","a"', true],
    ['*', true],
    ['"A"', false],
    ['a', false],
    ['', false],
  ]
  for (const [header, has] of cases)
    t.equal(hasTag({ headers: { 'if-none-match': header } }, '"a"'), has, header ?? 'none')
})
