// tap reporter: one line per file, all lines of a file that failed, and the counts at the end.
import { appendFileSync } from 'node:fs'
import { Transform } from 'node:stream'
import { Parser } from 'tap-parser'

export default class Plain extends Transform {
  #parser = new Parser()
  #counts = { pass: 0, fail: 0, skip: 0, todo: 0 }
  #lines = []

  constructor(options) {
    super(options)
    for (const kind of Object.keys(this.#counts))
      this.#parser.on(kind, () => {
        this.#counts[kind] += 1
      })
    this.#parser.on('child', (file) => {
      this.#lines = []
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
    // `.ci/run` adds up the runs of both Node lines and of the integration tests from this file.
    if (process.env.GATEHOUSE_TALLY)
      appendFileSync(process.env.GATEHOUSE_TALLY, `${pass} ${fail} ${skip + todo}\n`)
    this.push(`${pass} passed, ${fail} failed, ${skip + todo} skipped\n`)
    done()
  }
}
