import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { missing } from '../../endurance/requirements.ts'
import { ROOT } from '../markdown.ts'

const MINUTES = 3
const lacking = missing('postgres')

t.test(
  `${MINUTES} minutes of kills, failovers and partitions break no promise`,
  { skip: lacking ?? false, timeout: (MINUTES + 5) * 60_000 },
  async (t) => {
    const args = ['--conditions=@gatehouse/source', 'scripts/endurance/run.ts']
    const child = spawn(process.execPath, [...args, '--minutes', `${MINUTES}`], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    t.teardown(async () => {
      if (child.exitCode !== null) return
      // It removes what it has made.
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    })
    const [printed, errors, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    t.comment(printed)
    const broken = printed.split('\n').filter((line) => /^(BROKEN|UNTRIED| {8}\S)/.test(line))
    t.equal(code, 0, [...broken, errors].join('\n').trim())
    for (const done of ['killed: ', 'cut off: ', 'failovers ', '== Promises'])
      t.ok(printed.includes(`\n${done}`), done)
  },
)
