import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { until } from '../../../scripts/test/until.ts'
import { announceReady } from '../src/ready.ts'

const PROGRAM = `#!/bin/sh
echo "$@ $NOTIFY_SOCKET $SECRET" > "$0.draft" && mv "$0.draft" "$0.asked"
`

function logged() {
  const lines: { msg: string }[] = []
  const log = pino(
    new Writable({
      write(line, _, done) {
        lines.push(JSON.parse(line))
        done()
      },
    }),
  )
  return { log, messages: () => lines.map(({ msg }) => msg) }
}

t.test('systemd is told, without what else is in the environment', async (t) => {
  const program = join(t.testdir({ 'systemd-notify': PROGRAM }), 'systemd-notify')
  chmodSync(program, 0o755)
  const PATH = `${t.testdirName}:${process.env.PATH}`
  const { log, messages } = logged()
  announceReady({}, { log, env: { PATH, NOTIFY_SOCKET: '/run/notify', SECRET: 'kept' } })
  await until(() => existsSync(`${program}.asked`))
  t.equal(readFileSync(`${program}.asked`, 'utf8'), '--ready /run/notify \n')
  t.strictSame(messages(), ['ready'])
})

t.test('without its program, the service goes on and says so', async (t) => {
  const { log, messages } = logged()
  announceReady({}, { log, env: { PATH: t.testdir(), NOTIFY_SOCKET: '/run/notify' } })
  await until(() => messages().length > 1)
  t.strictSame(messages(), ['ready', 'systemd could not be notified of readiness'])
})

t.test('elsewhere nothing is started', async (t) => {
  const program = join(t.testdir({ 'systemd-notify': PROGRAM }), 'systemd-notify')
  const { log, messages } = logged()
  announceReady({ url: 'http://localhost' }, { log, env: { PATH: t.testdirName } })
  t.strictSame(messages(), ['ready'])
  t.notOk(existsSync(`${program}.asked`))
})
