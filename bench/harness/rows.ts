/** One line of the table: a measured value and, where there is a target, how it compares. */
export interface Row {
  readonly name: string
  /** null: could not be measured here. */
  readonly value: number | null
  readonly unit: string
  readonly baseline: number | null
  readonly ratio: number | null
  /** What the ratio must reach, or for times and sizes must stay under. */
  readonly target: number | null
  readonly ok: boolean
}

interface Compared {
  readonly name: string
  readonly value: number
  readonly unit: string
  readonly baseline: number
  readonly ratio: number
}

interface Demanded extends Compared {
  readonly target: number
  readonly noise: number
}

/** A figure beside its baseline, without a target. */
export function compared(row: Compared): Row {
  return { ...row, target: null, ok: true }
}

export function atLeast({ noise, ...row }: Demanded): Row {
  return { ...row, ok: row.ratio >= row.target - noise }
}

export function atMost({ noise, ...row }: Demanded): Row {
  return { ...row, ok: row.ratio <= row.target + noise }
}

/** A figure without a target. */
export function stated(name: string, value: number, unit: string): Row {
  return { name, value, unit, baseline: null, ratio: null, target: null, ok: true }
}

/** What could not be measured on this machine, and why. */
export function notMeasured(name: string, reason: string): Row {
  return { ...stated(`${name} (not measured: ${reason})`, 0, ''), value: null }
}

export function toMarkdown(rows: readonly Row[]): string {
  const cells = rows.map(({ name, value, unit, baseline, ratio, target, ok }) => [
    name,
    value === null ? '' : `${format(value)} ${unit}`,
    baseline === null ? '' : `${format(baseline)} ${unit}`,
    ratio === null ? '' : ratio.toFixed(2),
    target === null ? '' : target.toFixed(2),
    ok ? '' : 'missed',
  ])
  return [['what', 'measured', 'baseline', 'ratio', 'floor', ''], Array(6).fill('---'), ...cells]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n')
}

function format(value: number): string {
  return value.toLocaleString('en-GB', { maximumFractionDigits: value < 100 ? 1 : 0 })
}
