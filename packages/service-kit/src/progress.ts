import type { Spinner } from 'yocto-spinner'

/** The time that a command may take, in ms, before it shows what it does. */
const QUIET_MS = 1_000

/** Shows a person at a terminal what a command does that takes more than a second. */
export class Progress implements Disposable {
  readonly #stream: NodeJS.WriteStream
  #text = ''
  #timer: NodeJS.Timeout | undefined
  #spinner: Spinner | undefined

  /** Writes to `stream`, usually stderr, if that is a terminal. */
  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
  }

  /** Sets what the command does, such as `copying the store`. The first call starts the second. */
  readonly say = (text: string): void => {
    this.#text = text
    if (this.#spinner) this.#spinner.text = text
    else if (this.#stream.isTTY) this.#timer ??= setTimeout(() => this.#show(), QUIET_MS).unref()
  }

  async #show(): Promise<void> {
    const { default: spinner } = await import('yocto-spinner')
    // The work may be over by now.
    if (this.#timer) this.#spinner = spinner({ text: this.#text, stream: this.#stream }).start()
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#spinner?.stop()
    this.#spinner = undefined
  }
}
