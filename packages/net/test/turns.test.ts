import t from 'tap'
import { createTurns } from '../src/turns.ts'

t.test('tasks with the same key run one after another, others at once', async (t) => {
  const inTurn = createTurns()
  const gates = new Map<string, () => void>()
  const log: string[] = []
  const run = (key: string, task: string) =>
    inTurn(key, async () => {
      log.push(`${task} begins`)
      await new Promise<void>((end) => gates.set(task, end))
      log.push(`${task} ends`)
      return task
    })
  const [first, second] = [run('a', 'first'), run('a', 'second')]
  const other = run('b', 'other')
  await new Promise(setImmediate)
  t.strictSame(log, ['first begins', 'other begins'])
  gates.get('first')?.()
  t.equal(await first, 'first')
  // It comes when the first one has left, and the second one is under way.
  const third = run('a', 'third')
  await new Promise(setImmediate)
  t.strictSame(log.slice(2), ['first ends', 'second begins'])
  for (const task of ['second', 'other']) gates.get(task)?.()
  await Promise.all([second, other])
  await new Promise(setImmediate)
  gates.get('third')?.()
  t.equal(await third, 'third')
})

t.test('a task that fails does not hold up the next', async (t) => {
  const inTurn = createTurns()
  const failed = inTurn('a', () => Promise.reject(new Error('refused')))
  const next = inTurn('a', async () => 'next')
  await t.rejects(failed, { message: 'refused' })
  t.equal(await next, 'next')
})

t.test('keys whose tasks are over take no memory', async (t) => {
  const inTurn = createTurns()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 10_000; i++)
    await inTurn(Buffer.alloc(20_000, `${i} `).toString('latin1'), async () => {})
  t.ok(process.memoryUsage().heapUsed - before < 100_000_000, 'of 200 MB')
})
