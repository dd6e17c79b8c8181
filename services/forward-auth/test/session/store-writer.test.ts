import { DatabaseSync } from 'node:sqlite'
import { fromClaims } from '@gatehouse/profile'
import { columns } from '@gatehouse/store'
import t from 'tap'
import { STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import { SESSIONS, TABLES } from '../../src/store/tables.ts'
import { type Instance, portalNamed, startInstance, touch } from './kit.ts'

/**
 * What a column is worth to somebody who writes into the store:
 * - sealed: nothing, since the row does not open once it is changed
 * - takes: its row takes time or rights away. Without it, what was sealed bounds them
 * - nothing: it is shown or recorded, or says when a row may be removed
 */
const WORTH: Readonly<Record<string, Readonly<Record<string, 'sealed' | 'takes' | 'nothing'>>>> = {
  sessions: {
    ...{ sid: 'sealed', portal: 'sealed', person: 'sealed', mail: 'sealed', subject: 'sealed' },
    ...{ providerSid: 'sealed', issuedAt: 'sealed', begun: 'sealed', lastSeen: 'sealed' },
    ...{ seenMac: 'sealed', idle: 'sealed', reRead: 'sealed', ends: 'sealed', rev: 'sealed' },
    ...{ lease: 'takes', sealed: 'sealed', parent: 'sealed' },
  },
  visits: { sid: 'nothing', host: 'nothing', at: 'nothing' },
  marks: { key: 'takes', before: 'takes', until: 'takes', due: 'takes' },
  events: { id: 'takes', kind: 'takes', key: 'takes', until: 'takes', due: 'takes' },
  completed: { login: 'takes', until: 'takes', due: 'takes' },
  consents: { key: 'sealed', person: 'takes', mac: 'sealed', until: 'sealed', due: 'takes' },
  approvals: {
    ...{ key: 'sealed', portal: 'sealed', person: 'sealed', agent: 'sealed', decider: 'sealed' },
    ...{ state: 'sealed', until: 'takes', due: 'takes', sealed: 'sealed' },
  },
  outbox: {
    ...{ id: 'takes', receiver: 'takes', body: 'sealed', at: 'takes', tries: 'takes' },
    ...{ nextAt: 'takes', until: 'takes', due: 'takes' },
  },
  secrets: { name: 'sealed', sealed: 'sealed' },
  audit: Object.fromEntries(
    (TABLES.find(({ name }) => name === 'audit')?.members ?? []).map((each) => [each, 'nothing']),
  ),
}

const MINUTE = 60_000
const PORTALS = [portalNamed('main', ['corp'], { idle: 5 * MINUTE }), portalNamed('other')]
const personOf = (sub: string, groups: readonly string[]) => fromClaims('corp', { sub, groups })

type Row = Record<string, string | number | null>

/** Somebody who reads and writes the file of an instance. */
function writerOf({ folder }: Instance) {
  const run = (sql: string, ...params: (string | number | null)[]) => {
    using db = new DatabaseSync(`${folder}/${STATE_FILE}`, { timeout: 5_000 })
    return db.prepare(sql).all(...params)
  }
  return {
    copy: (sid: string) => run('SELECT rowid, * FROM sessions WHERE sid = ?', sid)[0] as Row,
    set({ rowid = null }: Row, changed: Row) {
      const columns = Object.keys(changed).map((column) => `${column} = ?`)
      run(`UPDATE sessions SET ${columns} WHERE rowid = ?`, ...Object.values(changed), rowid)
    },
  }
}

t.test('each column is sealed, or takes away, or grants nothing', (t) => {
  for (const { name, members } of TABLES)
    t.strictSame(Object.keys(WORTH[name] ?? {}).toSorted(), members.toSorted(), name)
  t.end()
})

t.test('no column that a writer of the store changes gives time or rights', async (t) => {
  const here = await startInstance(t, { portals: PORTALS })
  const ada = await here.begin({ profile: personOf('ada', []) })
  const bob = await here.begin({ profile: personOf('bob', ['admin']) })
  const elsewhere = await here.begin({ at: here.portal('other') })
  const { copy, set } = writerOf(here)
  const [own, ...others] = [ada, bob, elsewhere].map(({ sid }) => copy(sid)) as [Row, ...Row[]]
  const before = (await here.check(ada.cookie))!
  /** Whom the service finds for Ada's cookie, once the store has been written. */
  async function after(changed: Row) {
    set(own, { ...own, ...changed })
    here.records.forgetAll()
    return here.check(ada.cookie)
  }
  for (const member of SESSIONS.members) {
    const column = columns(member).split(' ', 1)[0]!
    const later = typeof own[column] === 'number' ? [0, 1, 9e15, own[column] + 4 * MINUTE] : []
    const values = [null, '', 'x', ...later, ...others.map((row) => row[column]!)]
    for (const value of values.filter((each) => each !== own[column])) {
      const found = await after({ [column]: value }).catch((error) => {
        if (!/constraint|cannot store/.test(error.message)) throw error
      })
      if (WORTH.sessions![member] === 'sealed') t.equal(found, undefined, `${column}: ${value}`)
      else if (found) t.strictSame(found, before, `${column}: ${value}`)
    }
  }
  for (const { rowid: _, sid: __, ...other } of others) t.equal(await after(other), undefined)
  t.strictSame(await after({}), before, 'as it was')
})

t.test('a session that nobody uses ends, whatever the store says of its use', async (t) => {
  const here = await startInstance(t, { portals: PORTALS })
  const [ada, bob] = [await here.begin(), await here.begin()]
  const { copy, set } = writerOf(here)
  await here.clock.advance(4 * MINUTE)
  await touch(here, bob.sid)
  const { last_seen, seen_mac } = copy(bob.sid)
  await here.clock.advance(2 * MINUTE)
  t.ok(await here.check(bob.cookie), 'who uses theirs stays')
  for (const seen of [{ last_seen: here.clock.now() }, { last_seen, seen_mac }] as Row[]) {
    set(copy(ada.sid), seen)
    const again = await startInstance(t, {
      portals: PORTALS,
      folder: here.folder,
      clock: here.clock,
    })
    t.equal(await again.check(ada.cookie), undefined)
    t.equal(await again.arrive(ada.own), undefined)
  }
})

t.test('an older row of a living session counts no more', async (t) => {
  const here = await startInstance(t)
  const ada = await here.begin({ profile: personOf('ada', ['admin']) })
  const { copy, set } = writerOf(here)
  const old = copy(ada.sid)
  const now = await here.begin({ profile: personOf('ada', []), before: ada.session })
  t.match(now.session, { sid: ada.sid, rev: 2 })
  for (const { cookie } of [ada, now])
    t.strictSame(
      (await here.check(cookie))?.profile.claims.groups,
      [],
      'the app has the cookie of before',
    )
  set(old, old)
  here.records.forgetAll()
  for (const { cookie, own } of [ada, now]) {
    t.equal(await here.check(cookie), undefined, 'where the newer one was known')
    t.equal(await here.arrive(own), undefined)
  }
  const again = await startInstance(t, { folder: here.folder, clock: here.clock })
  t.equal(await again.check(now.cookie), undefined, 'by the revision in the cookie of an app')
  t.equal(await again.arrive(now.own), undefined)
})
