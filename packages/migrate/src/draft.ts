import { Document, isMap, isScalar, type Scalar, visit } from 'yaml'
import { placeOf, type SourceSetting } from './source.ts'

/** Keys and numbers of items, from the top. */
export type Path = readonly (string | number)[]

const WIDTH = 100

/**
 * A configuration that is being written, with a comment for what each value comes from, for what has no
 * counterpart, and `TODO` where a person has to decide. It never holds a secret.
 */
export class Draft {
  readonly #doc = new Document({})
  readonly #remarks: { readonly line: number; readonly text: string }[] = []
  readonly #secrets: string[] = []
  /** Comments before the key of a value, by its path. */
  readonly #comments = new Map<string, string[]>()
  readonly #marked = new Set<string>()
  #todos = 0

  /** The number of places that a person has to decide about. */
  get todos(): number {
    return this.#todos
  }

  /** Sets a value, with the setting that it comes from. Undefined sets nothing. */
  set(path: Path, value: unknown, setting?: SourceSetting): void {
    if (value === undefined) return
    this.#doc.setIn(path, this.#doc.createNode(escapeDollars(value)))
    if (!setting) return
    const node = this.#doc.getIn(path, true)
    const source = `${setting.spelling}, line ${setting.line}`
    const isOneLine = isScalar(node) && !String(node.value).includes('\n')
    if (isOneLine) (node as Scalar).comment = ` ${source}`
    else this.comment(path, source)
  }

  /** Sets the first value of a setting, or else the fallback; changed or as it is. */
  copy(
    path: Path,
    setting: SourceSetting | undefined,
    change: (text: string) => unknown = (text) => text,
    fallback?: string,
  ): void {
    const text = setting?.values[0] ?? fallback
    this.set(path, text === undefined ? undefined : change(text), setting)
  }

  /** Names a file for a secret, which a person has to write. */
  secret(path: Path, file: string, setting: SourceSetting): void {
    this.set(path, file, setting)
    this.#secrets.push(`${placeOf(setting)} to ${file}`)
  }

  /** Explains a value, before its key. */
  comment(path: Path, text: string): void {
    const key = JSON.stringify(path)
    this.#comments.set(key, [...(this.#comments.get(key) ?? []), text])
  }

  /** Marks a place that a person has to decide about: the value, or the one around it that is there. */
  todo(path: Path, text: string): void {
    this.#todos += 1
    const keyPath = this.#nearest(path)
    this.#marked.add(JSON.stringify(keyPath))
    this.comment(keyPath, `TODO: ${text}`)
  }

  /** Whether the value, or the one around it that is there, is marked already. */
  isMarked(path: Path): boolean {
    return this.#marked.has(JSON.stringify(this.#nearest(path)))
  }

  /** Says what becomes of a setting without a counterpart. */
  remark({ spelling, line }: SourceSetting, text: string): void {
    this.#remarks.push({ line, text: `line ${line}, ${spelling}: ${text}` })
  }

  has(path: Path): boolean {
    return this.#doc.hasIn(path)
  }

  /** Prints the document with all comments, below its title and the steps besides those for secrets and marked places. */
  print({ title, steps }: { readonly title: string; readonly steps: readonly string[] }): string {
    const doc = this.#doc.clone() as Document
    for (const [key, texts] of this.#comments) attach(doc, JSON.parse(key), texts)
    visit(doc, {
      Seq(_, list) {
        if (list.items.every(isScalar)) list.flow = true
      },
    })
    const tasks = [
      ...(this.#secrets.length > 0
        ? [`Write each secret to its file, with mode 0600: ${this.#secrets.join('; ')}.`]
        : []),
      ...(this.#todos > 0
        ? ['Decide at each place that is marked TODO. check-config refuses the file until then.']
        : []),
      ...steps,
    ]
    const header = [title, 'What to do next:', ...tasks.map((step, n) => `${n + 1}. ${step}`)]
    const top = header.map((text) => commentLines(text, '   ')).join('')
    const end = this.#remarks
      .toSorted((a, b) => a.line - b.line)
      .map(({ text }) => commentLines(text, '  '))
    const without = end.length > 0 ? `\n# Without a counterpart here:\n${end.join('')}` : ''
    return `${top}\n${doc.toString({ lineWidth: 0, flowCollectionPadding: false })}${without}`
  }

  /** Finds the key that a comment stands before: that of the value, of the first one of an item, or of what is around. */
  #nearest(path: Path): Path {
    for (let end = path.length; end > 0; end--) {
      const start = path.slice(0, end)
      if (!this.#doc.hasIn(start)) continue
      if (typeof start.at(-1) === 'string') return start
      const item = this.#doc.getIn(start, true)
      const [first] = isMap<Scalar<string>>(item) ? item.items : []
      if (first) return [...start, first.key.value]
    }
    return []
  }
}

/** Our configuration replaces `$` and a name in braces by an environment variable, and `$$` by `$`. */
function escapeDollars(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('$', '$$$$')
  if (Array.isArray(value)) return value.map(escapeDollars)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, escapeDollars(member)]),
  )
}

function attach(doc: Document, path: Path, texts: readonly string[]): void {
  const comment = texts
    .map((text) => commentLines(text, '  ').replaceAll(/^#|\n$/gm, ''))
    .join('\n')
  const parent = doc.getIn(path.slice(0, -1), true)
  const pair = isMap<unknown>(parent)
    ? parent.items.find(({ key }) => (isScalar(key) ? key.value : key) === path.at(-1))
    : undefined
  if (!pair) {
    doc.commentBefore = [doc.commentBefore, comment].filter(Boolean).join('\n')
    return
  }
  if (!isScalar(pair.key)) pair.key = doc.createNode(pair.key)
  ;(pair.key as Scalar).commentBefore = comment
}

/** Writes a text as comment lines of at most {@link WIDTH} characters; words are never broken. */
function commentLines(text: string, indent: string): string {
  const lines: string[] = []
  // Nothing of a setting may end the comment.
  for (const word of text.replaceAll(/[\p{Cc}\u2028\u2029]/gu, ' ').split(' ')) {
    const tail = lines.at(-1)
    if (tail !== undefined && tail.length + word.length < WIDTH - 3)
      lines[lines.length - 1] = `${tail} ${word}`
    else lines.push(lines.length === 0 ? word : `${indent}${word}`)
  }
  return lines.map((line) => `# ${line}\n`).join('')
}
