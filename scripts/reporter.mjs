// tap reporter: one line per file, all lines of a file that failed, and the counts at the end.
import { appendFileSync } from 'node:fs'
import { Transform } from 'node:stream'
import { Parser } from 'tap-parser'

export default class Plain extends Transform {
  #parser = new Parser()
  #counts = { pass: 0, fail: 0, skip: 0, todo: 0 }
  #lines = []
  #file = ''
  #skipped = ''

  constructor(options) {
    super(options)
    for (const kind of Object.keys(this.#counts))
      this.#parser.on(kind, () => {
        this.#counts[kind] += 1
      })
    this.#parser.on('skip', ({ skip, name }) => {
      const why = typeof skip === 'string' ? skip : name
      this.#skipped += `skipped ${this.#file}: ${why}\n`.replaceAll(/\n(?!$)/g, ' ')
    })
    this.#parser.on('child', (file) => {
      this.#lines = []
      this.#file = file.name
      file.on('line', (line) => this.#lines.push(line))
    })
    this.#parser.on('assert', ({ ok, name, time }) => {
      if (!ok) this.push(this.#lines.join(''))
      this.push(`${ok ? 'ok' : 'not ok'} ${name} (${Math.round(time)} ms)\n`)
    })
    this.#parser.on('bailout', (reason) => this.push(`Bail out! ${reason}\n`))
    this.#parser.on('extra', (text) => this.push(text))
  }

  _transform(chunk, _encoding, done) {
    this.#parser.write(chunk)
    done()
  }

  _flush(done) {
    this.#parser.end()
    const { pass, fail, skip, todo } = this.#counts
    // `.ci/run` adds up its runs from this file, and says at its end what they skipped.
    if (process.env.GATEHOUSE_TALLY)
      appendFileSync(
        process.env.GATEHOUSE_TALLY,
        `${pass} ${fail} ${skip + todo}\n${this.#skipped}`,
      )
    this.push(`${pass} passed, ${fail} failed, ${skip + todo} skipped\n`)
    done()
  }
}
