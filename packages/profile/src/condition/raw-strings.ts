/** A condition in CEL, and where its parts stand in what was written. */
export interface CelText {
  readonly cel: string
  /** The column of the source, from 1, for a position in `cel`, from 0. */
  columnOf(position: number): number
}

// Comments and the strings of CEL are passed over; a back-quoted string is captured.
const STRINGS =
  /\/\/[^\n]*|"""(?:[^\\]|\\.)*?"""|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`([^`]*)`/gs

/** Writes back-quoted raw strings, which Go's expressions have and CEL has not, as CEL strings. */
export function toCel(source: string): CelText {
  const growths: { end: number; by: number }[] = []
  let grown = 0
  const cel = source.replace(STRINGS, (written: string, raw: string | undefined, at: number) => {
    if (raw === undefined) return written
    const quoted = JSON.stringify(raw)
    const by = quoted.length - written.length
    growths.push({ end: at + grown + quoted.length, by })
    grown += by
    return quoted
  })
  const growthBefore = (position: number) =>
    growths.reduce((sum, { end, by }) => (position >= end ? sum + by : sum), 0)
  return { cel, columnOf: (position) => position - growthBefore(position) + 1 }
}
