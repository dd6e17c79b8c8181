import { startChild } from './harness/child.ts'
import { compare, type Effort, type Round } from './harness/compare.ts'
import { compared, type Row } from './harness/rows.ts'
import type { LeafSide } from './sides/leaf.ts'

/** Certificates made and signed in process, against the cryptography that they cannot do without. */
export async function* leaf(effort: Effort): AsyncGenerator<Row> {
  const { value, ratio } = await compare(
    () =>
      startLeafSides([
        'bare signature',
        'leaf',
        'raw key pair and signature',
        'key pair, leaf and PEMs',
      ]),
    effort,
  )
  type Side = Parameters<typeof value>[0]
  const row = (name: string, side: Side, baseline: Side) =>
    compared({
      name,
      value: value(side),
      unit: '/s',
      baseline: value(baseline),
      ratio: ratio(side, baseline),
    })
  yield row('leaf: P-256 leaf built and signed / bare signature', 'leaf', 'bare signature')
  yield row(
    'leaf: key pair, leaf and both PEMs / raw key pair and signature',
    'key pair, leaf and PEMs',
    'raw key pair and signature',
  )
}

/** The wanted sides of one fresh process. */
export async function startLeafSides<Side extends LeafSide>(
  sides: readonly Side[],
): Promise<Round<Side>> {
  const child = await startChild('../sides/leaf.ts', { core: 0 })
  const measure = Object.fromEntries(
    sides.map((side) => [side, (ms: number) => child.call<number>({ side, ms })]),
  ) as Round<Side>['measure']
  return { measure, stop: () => child.stop() }
}
