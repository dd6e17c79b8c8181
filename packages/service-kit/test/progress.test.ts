import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { Progress } from '../src/progress.ts'

/** What a command writes to a terminal, or to a file, that says `steps` and takes `ms`. */
async function written(t: Test, steps: readonly string[], ms: number, isTTY = true) {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => mock.timers.reset())
  const nothing = () => true
  const stream = Object.assign(new PassThrough(), {
    ...{ isTTY, columns: 80, cursorTo: nothing, clearLine: nothing, moveCursor: nothing },
  })
  const output = text(stream)
  {
    using progress = new Progress(stream as unknown as NodeJS.WriteStream)
    const [first = '', ...others] = steps
    progress.say(first)
    mock.timers.tick(ms)
    // The spinner is loaded when it is shown.
    await import('yocto-spinner')
    await new Promise(setImmediate)
    for (const step of others) progress.say(step)
  }
  stream.end()
  return output
}

for (const { name, steps, ms, isTTY, shown } of [
  { name: 'quick', steps: ['copying'], ms: 900, isTTY: true, shown: [] },
  { name: 'long', steps: ['copying'], ms: 1_100, isTTY: true, shown: ['copying'] },
  {
    name: 'steps',
    steps: ['copying', 'checking'],
    ms: 1_100,
    isTTY: true,
    shown: ['copying', 'checking'],
  },
  { name: 'not a terminal', steps: ['copying'], ms: 9_000, isTTY: false, shown: [] },
])
  t.test(`a command that is ${name}`, async (t) => {
    const output = await written(t, steps, ms, isTTY)
    t.strictSame(
      ['copying', 'checking'].filter((step) => output.includes(step)),
      shown,
    )
    if (shown.length === 0) t.equal(output, '')
  })
