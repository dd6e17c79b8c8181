import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { listSessions, type SessionsQuery } from '../../src/cli/sessions.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { readAudit } from '../../src/store/open.ts'
import { passes } from '../account/kit.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'

const EVIL = 'evil\u001b[2J\u009b2J\u202ex'
const MINUTE = 60_000

/** A service with people who are signed in, and the command on its store. */
async function start(t: Test) {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const yaml = yamlOf(portalOf('main') + portalOf('other'), `storage: { path: "${folder}/data" }`)
  writeFileSync(file, yaml)
  const { value: config } = await loadForwardAuthConfig(file, {})
  const test = await startApp(t, yaml, undefined, { clock: systemClock })
  const cookies = {
    ada: await test.signIn('main', { name: 'Ada Lovelace', email: 'ada@example.com' }),
    bob: await test.signIn('main', { sub: 'bob' }),
    evil: await test.signIn('main', { sub: 'eve', name: EVIL }),
    elsewhere: await test.signIn('other', { email: 'ada@example.com' }),
  }
  async function list(query: Partial<SessionsQuery> = {}): Promise<string[]> {
    const lines: string[] = []
    for await (const line of listSessions(config, query)) lines.push(line)
    return lines
  }
  const people = async (query: Partial<SessionsQuery>) =>
    (await list({ ...query, json: true }))
      .map((line) => JSON.parse(line))
      .map(({ portal, person }) => `${portal}/${person}`)
      .sort()
  return { ...test, cookies, list, people, config }
}

t.test('the sessions that a query selects', async (t) => {
  const { people } = await start(t)
  const [ada, bob, elsewhere] = ['main/corp:ada', 'main/corp:bob', 'other/corp:ada']
  const evil = 'main/corp:eve'
  const table: [query: Partial<SessionsQuery>, found: string[]][] = [
    [{}, [ada, bob, evil, elsewhere]],
    [{ portal: 'main' }, [ada, bob, evil]],
    [{ portal: 'other' }, [elsewhere]],
    [{ person: 'ada' }, [ada, elsewhere]],
    [{ person: 'corp:ada', portal: 'main' }, [ada]],
    [{ person: 'ADA@example.com' }, [ada, elsewhere]],
    [{ person: 'bob' }, [bob]],
    [{ person: 'eve' }, [evil]],
  ]
  for (const [query, found] of table)
    t.strictSame(await people(query), found.sort(), JSON.stringify(query))
  const message = /^nobody who is signed in is called (?:mallory|evil)[^?]*$/
  for (const person of ['mallory', EVIL]) await t.rejects(people({ person }), { message })
  for (const [person, nearest] of [
    ['ada@exmaple.com', 'ada@example.com'],
    ['corp:bbo', 'corp:bob'],
  ] as const)
    for (const end of [false, true])
      await t.rejects(people({ person, end }), {
        message: `nobody who is signed in is called ${person}; did you mean ${nearest}?`,
      })
})

t.test('a table for people', async (t) => {
  const { list } = await start(t)
  const [titles = '', ...lines] = (await list()).join('').trimEnd().split('\n')
  t.match(titles, /^PERSON +BEGUN +LAST SEEN +PORTAL$/, 'no app has been opened')
  const begun = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d/g
  const time = 'TIME'
  t.strictSame(
    lines.map((line) => line.replace(begun, time)),
    [
      'ada  TIME  TIME  main',
      'bob  TIME  TIME  main',
      'eve  TIME  TIME  main',
      'ada  TIME  TIME  other',
    ].map((text) => `corp:${text}`),
    'the newest is the last',
  )
})

t.test('JSON lines for programs', async (t) => {
  const { list } = await start(t)
  const [line = '', ...others] = await list({ person: 'corp:ada', portal: 'main', json: true })
  t.strictSame(others, [])
  t.match(line, /^[^\n]+\n$/)
  const session = JSON.parse(line)
  const times = ['begun', 'lastSeen', 'ends'].map((name) => Date.parse(session[name]))
  t.strictSame(
    times.map((time) => Math.abs(time - (times[0] ?? 0))),
    [0, 0, 480 * MINUTE],
  )
  t.match(session, {
    ...{ portal: 'main', person: 'corp:ada', name: 'Ada Lovelace', email: 'ada@example.com' },
    ...{ session: /^[\w-]{22}$/, userAgent: 'Mozilla/5.0', hosts: { length: 0 } },
  })
  const [evil = ''] = await list({ person: 'eve', json: true })
  t.match(evil, /^\P{C}+\n$/u, 'no terminal obeys them')
  t.match(JSON.parse(evil).name, /^evil/)
})

t.test('the sessions of a person end, after they were listed', async (t) => {
  const test = await start(t)
  const { list, people, cookies, app, config } = test
  const listed = await list({ person: 'ada', portal: 'main', end: true })
  t.match(listed, [/^PERSON.*\ncorp:ada /])
  t.strictSame(await people({ person: 'ada' }), ['other/corp:ada'])
  await app.authStore.catchUp()
  t.equal(await passes(test, cookies.ada), false, 'the service knows it')
  t.equal(await passes(test, cookies.bob), true)

  await t.rejects(list({ person: 'nobody', end: true }), { message: /is called nobody$/ })
  await t.rejects(list({ client: 'x', end: true }), { message: 'nobody has allowed x anything' })
  await t.rejects(list({ client: 'x', person: 'ada' }), {
    message: 'nobody who is called ada has allowed x anything',
  })
  await list({ person: 'ada@example.com', end: true })
  await t.rejects(people({ person: 'ada' }), { message: /is called ada$/ })
  t.equal((await people({})).length, 2)
  const rows: unknown[] = []
  for await (const { event, portal, person, endedBy, actor } of readAudit(config.storage, 0))
    if (event === 'session-ended') rows.push([event, portal, person, endedBy, actor])
  t.strictSame(rows, [
    ['session-ended', 'main', 'corp:ada', 'operator', userInfo().username],
    ['session-ended', 'other', 'corp:ada', 'operator', userInfo().username],
  ])
})

t.test('what cannot be meant is refused', async (t) => {
  const { list, people } = await start(t)
  const table: [query: Partial<SessionsQuery>, message: string][] = [
    [{ end: true }, '--end needs --person, whose sessions end, or --client'],
    [{ end: true, portal: 'main' }, '--end needs --person, whose sessions end, or --client'],
    [{ portal: 'none' }, '--portal must be one of main, other'],
    [{ portal: 'none', person: 'ada', end: true }, '--portal must be one of main, other'],
  ]
  for (const [query, message] of table) await t.rejects(list(query), { message })
  t.equal((await people({})).length, 4)
})
