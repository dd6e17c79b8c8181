import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { join } from 'node:path'

/** What the server says of a line, counted from 1. */
export interface Marked {
  readonly line: number
  readonly message: string
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: unknown
  readonly result?: unknown
}

interface Diagnostics {
  readonly uri: string
  readonly version?: number
  readonly diagnostics: readonly {
    readonly message: string
    readonly range: { readonly start: { readonly line: number } }
  }[]
}

/** Talks with yaml-language-server as an editor does: messages of LSP over stdio. */
export class LanguageServer {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #answers = new Map<number, (result: unknown) => void>()
  readonly #marks = new Map<string, (marks: Marked[]) => void>()
  #rest = Buffer.alloc(0)
  #last = 0

  /** @param folder - where yaml-language-server is installed */
  constructor(folder: string) {
    const main = join(folder, 'node_modules/yaml-language-server/bin/yaml-language-server')
    this.#child = spawn(process.execPath, [main, '--stdio'])
    this.#child.stdout.on('data', (bytes: Buffer) => this.#receive(bytes))
    this.#child.stderr.resume()
  }

  async start(): Promise<void> {
    await this.#ask('initialize', {
      processId: process.pid,
      rootUri: null,
      capabilities: {
        textDocument: { completion: { completionItem: { snippetSupport: true } } },
      },
    })
    this.#send({ method: 'initialized', params: {} })
    // Nothing from SchemaStore: only the line in the file names a schema.
    const yaml = { validate: true, completion: true, hover: true, schemaStore: { enable: false } }
    this.#send({ method: 'workspace/didChangeConfiguration', params: { settings: { yaml } } })
  }

  /** Opens a document, and gives what is marked in it. */
  open(uri: string, text: string): Promise<Marked[]> {
    const marked = new Promise<Marked[]>((resolve) => this.#marks.set(uri, resolve))
    const textDocument = { uri, languageId: 'yaml', version: 1, text }
    this.#send({ method: 'textDocument/didOpen', params: { textDocument } })
    return marked
  }

  /** The labels that are offered at a place of a document, counted from 0. */
  async complete(uri: string, line: number, character: number): Promise<string[]> {
    const position = { line, character }
    const params = { textDocument: { uri }, position }
    const result = await this.#ask('textDocument/completion', params)
    const { items } = (Array.isArray(result) ? { items: result } : result) as {
      items: { label: string }[]
    }
    return items.map(({ label }) => label)
  }

  /** What is shown for a place. */
  async hover(uri: string, line: number, character: number): Promise<string> {
    const params = { textDocument: { uri }, position: { line, character } }
    return JSON.stringify(await this.#ask('textDocument/hover', params))
  }

  stop(): void {
    this.#child.kill()
  }

  #ask(method: string, params: unknown): Promise<unknown> {
    this.#last += 1
    const id = this.#last
    this.#send({ id, method, params })
    return new Promise((resolve) => this.#answers.set(id, resolve))
  }

  #send(message: object): void {
    const text = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
  }

  #receive(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (;;) {
      const head = this.#rest.indexOf('\r\n\r\n')
      if (head < 0) return
      const length = Number(
        /Content-Length: (\d+)/i.exec(this.#rest.toString('latin1', 0, head))?.[1],
      )
      const end = head + 4 + length
      if (this.#rest.length < end) return
      const message = JSON.parse(this.#rest.toString('utf8', head + 4, end))
      this.#rest = this.#rest.subarray(end)
      this.#handle(message)
    }
  }

  #handle({ id, method, params, result }: Message): void {
    if (method === 'textDocument/publishDiagnostics') {
      const { uri, diagnostics } = params as Diagnostics
      const marks = diagnostics.map(({ range, message }) => ({
        line: range.start.line + 1,
        message,
      }))
      this.#marks.get(uri)?.(marks)
    } else if (method !== undefined && id !== undefined) {
      // A request of the server, such as for the settings of the editor.
      const { items } = (params ?? {}) as { items?: readonly unknown[] }
      this.#send({ id, result: items ? items.map(() => null) : null })
    } else if (id !== undefined) {
      this.#answers.get(id)?.(result)
      this.#answers.delete(id)
    }
  }
}
