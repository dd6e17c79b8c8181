/** What every event has. */
export interface EventHead {
  readonly id: string
  /** RFC 3339, as all times. */
  readonly at: string
  readonly type: string
}

/** An event for people. */
export interface EventText {
  readonly title: string
  /** Whole sentences that say what happened. */
  readonly what: string
  /** Whole sentences that say what to do about it. */
  readonly action: string
  /** Names and values that identify what it is about. */
  readonly details: readonly (readonly [name: string, value: string])[]
  readonly severity: 'info' | 'warning' | 'critical'
}

/** The parts of a text below its title, as paragraphs of plain text. */
export function paragraphsOf({ what, action, details }: EventText): readonly string[] {
  const list = details.map(([name, value]) => `${name}: ${value}`).join('\n')
  return [what, `What to do: ${action}`, list]
}

/** Makes one line of a text from outside. */
export function tidy(text: string, max: number): string {
  return shorten(text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim(), max)
}

export function shorten(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max - 1)}…` : text
}
