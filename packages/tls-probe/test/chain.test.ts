import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { rootOf } from '../src/chain.ts'
import { intermediate, issue, other, root } from './servers.ts'

t.test('a chain leads to a root by its signatures', async (t) => {
  const leaf = (await issue(['a.test'])).der
  const table: readonly [
    what: string,
    chain: readonly Buffer[],
    roots: readonly Buffer[],
    found?: Buffer,
  ][] = [
    ['by its intermediate', [leaf, intermediate], [other, root], root],
    ['that is sent, too', [leaf, intermediate, root], [root], root],
    ['in any order', [leaf, other, root, intermediate], [root], root],
    ['an intermediate that is trusted', [leaf], [intermediate], intermediate],
    ['itself', [root], [root], root],
    ['a leaf that is trusted', [leaf], [leaf], leaf],
    ['without the intermediate', [leaf], [root]],
    ['to an unknown root', [leaf, intermediate, root], [other]],
    ['another chain', [leaf, other], [root]],
    ['no chain', [], [root]],
    ['no roots', [leaf, intermediate, root], []],
  ]
  const read = (ders: readonly Buffer[]) => ders.map((der) => new X509Certificate(der))
  for (const [what, chain, roots, found] of table)
    t.strictSame(rootOf(read(chain), read(roots))?.raw, found, what)
})
