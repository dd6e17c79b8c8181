import { parseEnv } from 'node:util'
import { attempt } from '@gatehouse/net'
import type { AST } from 'toml-eslint-parser'
import { notTheirs, type RawSetting, type SourceSetting } from './source.ts'

// One word of a shell: plain text, quoted texts and characters behind a backslash.
const WORD = /(?:[^\s'"\\]|'[^']*'|"[^"]*"|\\.|['"])+/g
const QUOTED = /'([^']*)'|"([^"]*)"|\\(.)/g
const FLAG = /^--?([a-z][\w.-]*)(?:[=\s](.*))?$/s
// Also as in a list or a mapping of YAML.
const VARIABLE = /^\s*(?:-\s+)?(?:export\s+)?([A-Z][A-Z0-9_]*)\s*(?:=|:(?=\s|$))/
const COMMENT = /^\s*([#;].*)?$/

const linesOf = (text: string) => text.split(/\r?\n/)
const uncommented = (text: string) => linesOf(text).filter((line) => !COMMENT.test(line))

/** Whether each line is a flag, as on a command line: `--name=value`. */
export function isFlags(text: string): boolean {
  const lines = uncommented(text)
  return lines.length > 0 && lines.every((line) => flagOf(line))
}

/** Whether the lines are environment variables: `NAME=value`, or `NAME: value` of a mapping. */
export function isVariables(text: string): boolean {
  const lines = uncommented(text)
  return lines.filter((line) => VARIABLE.test(line)).length > lines.length / 2
}

/** Reads flags, one in each line. If a flag is given several times, all its values count. */
export function readFlags(text: string): RawSetting[] {
  return linesOf(text).flatMap((line, index) => {
    const flag = flagOf(line)
    return flag ? [{ ...flag, line: index + 1 }] : []
  })
}

/** Reads a line as a shell does, or an item of a list of YAML, which is one word. */
function flagOf(line: string): Pick<RawSetting, 'spelling' | 'values'> | undefined {
  const [, item] = /^\s*-\s(.*)$/.exec(line) ?? []
  const [word = '', ...rest] = item === undefined ? shellWords(line) : [withoutQuotes(item.trim())]
  const [, spelling, value] = FLAG.exec(word) ?? []
  if (spelling === undefined) return undefined
  return { spelling, values: [withoutQuotes(value?.trimStart() ?? (rest.join(' ') || 'true'))] }
}

function shellWords(line: string): string[] {
  const words = line.match(WORD) ?? []
  return words.map((word) =>
    word.replaceAll(
      QUOTED,
      (_, raw, quoted, escaped) => raw ?? quoted?.replaceAll(/\\([$\\`])/g, '$1') ?? escaped,
    ),
  )
}

const withoutQuotes = (text: string) => text.replace(/^(["'])(.*)\1$/s, '$2')

export function readVariables(text: string): RawSetting[] {
  const lines = linesOf(text)
  const plain = lines.map((line) => line.replace(VARIABLE, '$1=')).join('\n')
  return Object.entries(parseEnv(plain)).map(([spelling, value = '']) => ({
    spelling,
    values: [value],
    line: lines.findLastIndex((line) => VARIABLE.exec(line)?.[1] === spelling) + 1,
  }))
}

/** Reads assignments as in INI files: `name = value`, or `name value`. Sections have no meaning. */
export function readAssignments(text: string, file: string): RawSetting[] {
  return linesOf(text).flatMap((line, index) => {
    if (COMMENT.test(line) || /^\s*\[.*\]\s*$/.test(line)) return []
    const [, spelling, value = ''] = /^([\w.-]+)(?:\s*=|\s)(.*)$/s.exec(line.trimStart()) ?? []
    if (spelling === undefined)
      throw notTheirs(file, index + 1, 'is neither a comment nor `name = value`')
    return [{ spelling, values: [unquote(value.trim())], line: index + 1 }]
  })
}

function unquote(text: string): string {
  if (!/^".*"$/.test(text)) return text
  return attempt(() => JSON.parse(text)) ?? text.slice(1, -1)
}

/** Reads the keys at the top of a TOML file. @throws ConfigError CONFIG_NOT_THEIRS; nothing of the file is quoted */
export async function readToml(text: string, file: string): Promise<RawSetting[]> {
  const { getStaticTOMLValue, parseTOML } = await import('toml-eslint-parser')
  let program: AST.TOMLProgram
  try {
    program = parseTOML(text)
  } catch (error) {
    const { lineNumber = 1 } = error as { lineNumber?: number }
    throw notTheirs(file, lineNumber, 'is not valid TOML')
  }
  return program.body[0].body.flatMap((node) => {
    const [key] = node.key.keys
    const spelling = node.key.keys.map(nameOf).join('.')
    if (node.type !== 'TOMLKeyValue' || !key) return [{ spelling, values: [], line: lineOf(node) }]
    const values = [getStaticTOMLValue(node.value)].flat().map(String)
    return [{ spelling, values, line: lineOf(node) }]
  })
}

const nameOf = (key: AST.TOMLBare | AST.TOMLQuoted) =>
  key.type === 'TOMLBare' ? key.name : key.value

const lineOf = ({ loc }: AST.TOMLNode) => loc.start.line

/** Joins what is given several times: all values of a list count, and the last one of any other setting. */
export function mergeRepeated(
  settings: readonly SourceSetting[],
  isList: (name: string) => boolean,
): SourceSetting[] {
  return [...Map.groupBy(settings, ({ name }) => name)].flatMap(([name, occurrences]) => {
    const latest = occurrences.at(-1)
    if (!latest) return []
    // Lists are separated by commas wherever a value is one text.
    const values = isList(name)
      ? occurrences.flatMap((occurrence) => occurrence.values.flatMap((value) => value.split(',')))
      : latest.values
    return [{ ...latest, values: values.map((value) => value.trim()) }]
  })
}
