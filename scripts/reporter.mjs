// tap reporter: one line per file, the whole of a file that failed, and a closing tally.
import { appendFileSync } from 'node:fs'
import { Transform } from 'node:stream'

export default class Plain extends Transform {
  #rest = ''
  #block = []

  _transform(chunk, _encoding, done) {
    const lines = (this.#rest + chunk).split('\n')
    this.#rest = lines.pop()
    for (const line of lines) this.#line(line)
    done()
  }

  #line(line) {
    const print = (text) => this.push(`${text}\n`)
    const tally = /^# \{ (total: .*) \}$/.exec(line)
    if (tally) print(this.#tally(tally[1]))
    else if (/^(not )?ok /.test(line)) {
      print(line.startsWith('not') ? `${this.#block.join('\n')}\n${line}` : line)
      this.#block = []
    } else if (/^(# Subtest| {4})/.test(line)) this.#block.push(line)
    else if (line !== '' && !/^(TAP version|1\.\.|# time| {2})/.test(line)) print(line)
  }

  #tally(text) {
    const n = Object.fromEntries(text.split(', ').map((pair) => pair.split(': ')))
    const counts = [n.pass ?? 0, n.fail ?? 0, Number(n.skip ?? 0) + Number(n.todo ?? 0)]
    // `.ci/run` adds up the runs of both Node lines and of the integration tests from this file.
    if (process.env.GATEHOUSE_TALLY)
      appendFileSync(process.env.GATEHOUSE_TALLY, `${counts.join(' ')}\n`)
    return `${counts[0]} passed, ${counts[1]} failed, ${counts[2]} skipped`
  }
}
