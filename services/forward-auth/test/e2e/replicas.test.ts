import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import { SHAPES } from '../shapes.ts'

const run = promisify(execFile)

/** Starts an instance, and waits until it is ready. */
async function start(t: Test, config: string) {
  const running = startRunning(t, [...programOf('forward-auth'), 'serve', '--config', config])
  return { ...running, url: String((await running.said('ready')).url) }
}

const { Host: _, ...CHECK } = SHAPES[0]?.headers ?? {}

async function statusAt(url: string, cookie: string): Promise<number> {
  const headers = { ...CHECK, accept: 'application/json', cookie }
  return (await fetch(`${url}/portals/main`, { headers })).status
}

async function signOut(url: string, cookie: string): Promise<number> {
  const answer = await fetch(`${url}/portals/main/logout`, {
    method: 'POST',
    headers: {
      origin: 'https://auth.example.com',
      'x-forwarded-host': 'auth.example.com',
      'content-type': 'application/x-www-form-urlencoded',
      cookie,
    },
  })
  return answer.status
}

t.test('an instance that is killed takes no logout with it', async (t) => {
  const server = await startPostgres(t)
  const folder = testFolder(t)
  const config = join(folder, 'config.yaml')
  const rest = `server: { port: 0 }\nmetrics: { enabled: false }\nlog: { format: json }
storage: { url: "${server.url}" }`
  writeFileSync(config, yamlOf(portalOf('main'), rest))
  const [one, two] = await Promise.all([start(t, config), start(t, config)])
  // Another instance of the store makes the sessions.
  const storage = `storage: { url: "${server.url}" }`
  const yaml = yamlOf(portalOf('main'), storage)
  const third = await startApp(t, yaml, undefined, { clock: systemClock })
  const people = Array.from({ length: 20 }, (_, i) => ({ sub: `person${i}` }))
  const cookies = await Promise.all(people.map((claims) => bothCookies(third, claims)))
  const statuses = (url: string) => Promise.all(cookies.map((cookie) => statusAt(url, cookie.app)))
  const all = (status: number) => cookies.map(() => status)
  t.strictSame(await statuses(one.url), all(200))
  t.strictSame(await statuses(two.url), all(200))

  const leaving = cookies.map((cookie) => signOut(one.url, cookie.auth))
  t.strictSame(await Promise.all(leaving), all(200))
  one.child.kill('SIGKILL')
  await one.ended
  await until(async () => (await statuses(two.url)).every((status) => status === 401))
  const again = await start(t, config)
  t.strictSame(await statuses(again.url), all(401), 'after a restart')
  again.child.kill('SIGTERM')
  t.match(await again.ended, { code: 0, signal: null }, 'it ends in order')

  // The rows of the audit trail are written behind the answers.
  const [command = '', ...args] = [
    ...programOf('forward-auth'),
    'audit',
    '--json',
    '--config',
    config,
  ]
  const { stdout } = await run(process.execPath, [command, ...args])
  const rows = stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
  t.ok(rows.length > 0)
  for (const { event, portal } of rows)
    t.match({ event, portal }, { event: 'sign-out', portal: 'main' })

  const call: StoredAuditRow = {
    ...{ time: new Date().toISOString(), portal: 'main', requestId: 'a', ran: 0 },
    ...{ provider: 'corp', person: 'corp:alice', client: 'spa', tool: 'delete_repo', count: 12 },
    event: 'program-passed',
  }
  const others = [{ tool: 'read_repo' }, { person: 'corp:bob' }, { client: 'other' }]
  await third.app.authStore.audit.append([call, ...others.map((other) => ({ ...call, ...other }))])
  const query = ['--person', 'alice', '--tool', 'delete*', '--client', 'spa', '--since', '7d']
  const found = await run(process.execPath, [command, ...args, ...query])
  t.strictSame(JSON.parse(found.stdout), call)
})
