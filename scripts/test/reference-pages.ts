// What the generated pages of docs/reference say, for tests of what is said elsewhere.
import { codeOf, readDocument } from './markdown.ts'

interface Block {
  /** A key or a code. */
  readonly name: string
  /** The line below it: a type with its default, or a status with what it means. */
  readonly line: string
}

const HEADING = /^#{2,5} `([^`]+)`(?: \(\w+\))?$/

function blocksOf(page: string): Block[] {
  const lines = readDocument(`docs/reference/${page}.md`).prose.filter((line) => line !== '')
  return lines.flatMap((heading, index) => {
    const [, name] = HEADING.exec(heading) ?? []
    return name === undefined ? [] : [{ name, line: lines[index + 1] ?? '' }]
  })
}

export interface Setting {
  readonly key: string
  readonly type: string
  readonly fallback: string
}

/** The keys of a service. */
export const settingsOf = (service: string): Setting[] =>
  blocksOf(service).map(({ name, line }) => {
    const [type = '', fallback = ''] = line.split(/, (?=default `)/)
    return { key: name, type, fallback: codeOf(fallback)[0] ?? '' }
  })

/** Each code of an error with its status, or none. */
export const statusOfCodes = (): ReadonlyMap<string, string> =>
  new Map(blocksOf('errors').map(({ name, line }) => [name, /^\d{3}(?=: )/.exec(line)?.[0] ?? '']))
