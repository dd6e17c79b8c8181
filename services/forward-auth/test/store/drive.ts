import type { AuthStore } from '../../src/store/auth-store.ts'
import type { Listing, StoreOptions } from '../../src/store/store.ts'
import { agent, approval, codeOf, consent, HOUR, seenAt, session } from './kit.ts'

const ignore = () => {}
export const LOG: StoreOptions['log'] = { error: ignore, warn: ignore, info: ignore }

/** Has a store run each of its statements. */
export async function driveAll(store: AuthStore): Promise<void> {
  await store.follow({ learn() {}, ended: () => ['gone'] })
  const now = store.clock.now()
  const idle = { idle: 1, lastSeen: 1 }
  const row = session('a')
  for (const each of [row, session('b', { person: row.person }), session('idle', idle)])
    await store.beginSession(each)
  await store.beginAgent(agent('x', 'a'), codeOf('x'))
  await store.updateSession({ ...row, rev: 1, ends: row.ends + HOUR, lastSeen: row.lastSeen + 1 })
  await store.leaseSession('a', 1, 0, now + HOUR)
  await store.touchSessions([seenAt('a', now + 2, ['app.example'])])
  await store.findSession('a')
  const keys: Listing[] = [{ portal: 'main' }, { person: 'ada' }, { mail: 'ada' }]
  for (const key of keys)
    for (const agents of [false, true]) await store.listSessions({ ...key, agents }, 51)
  await store.tell({ kind: 'burnt', key: 'ticket', until: now + HOUR })
  await store.completeLogin('login', now + HOUR)
  await store.hasCompleted('login')
  await store.giveConsent(consent('key', 'ada', now + HOUR))
  await store.findConsent('key')
  await store.withdrawConsents('ada')
  await store.withdrawConsents(undefined, 'client')
  await store.addApproval(approval('call', { agent: 'x' }))
  await store.findApproval('call')
  await store.listApprovals('ada', 100)
  const remembered = approval('tool', { agent: 'x', state: 'remembered' })
  await store.decideApproval(approval('call', { agent: 'x', state: 'allowed' }), remembered)
  await store.useApproval('call')
  await store.outbox.addEvent({ body: '{}', at: now, receivers: ['ops'] })
  for (const { id } of await store.outbox.claimDueEvents('ops', now, 1, now + HOUR)) {
    await store.outbox.delayEvent(id, now)
    await store.outbox.hastenEvents('ops', now, now)
    await store.outbox.deleteEvent(id)
  }
  await store.endSessions({ sid: 'x' })
  await store.endSessions({ person: row.person, except: 'b' })
  await store.endSessions({ subject: 'subject of b', issuedUntil: 1 })
  await store.endSessions({ providerSid: 'nobody', issuedUntil: 1 })
  await store.prune()
  await store.catchUp()
  await store.audit.append([
    { time: new Date().toISOString(), event: 'sign-in', portal: 'main', requestId: 'r', ran: 1 },
  ])
  for await (const _ of store.audit.rows(0));
  await store.audit.prune(1)
}

/** Statements that may read many rows, by their beginning or a part of them, and why. */
export const KNOWN: Readonly<Record<string, string>> = {
  'FROM consents WHERE substr(key': 'an operator ends a client for everybody',
}

export const KNOWN_BY: Readonly<Record<'sqlite' | 'postgres', Readonly<Record<string, string>>>> = {
  sqlite: {
    'FROM events WHERE id >': 'what came since the last read',
    'AND due <= $2 ORDER BY due LIMIT $3':
      'a prune: passes over what was written while a clock was ahead',
  },
  postgres: {
    'UNION ALL SELECT id FROM events': 'the last 10,000',
    'FROM audit WHERE (at <': 'a prune of the audit trail, 10,000 rows at a time',
  },
}

/** The sources whose statements are driven. */
export const SOURCES = {
  both: ['auth-store.ts', '../../../../packages/store/src/outbox.ts'],
  sqlite: ['sqlite/sqlite-store.ts'],
  postgres: ['postgres/postgres-store.ts', 'postgres/audit-table.ts', 'postgres/sealed-secrets.ts'],
}
/** Tables that grow with people. */
export const LARGE = [
  'sessions',
  'visits',
  'marks',
  'events',
  'completed',
  'consents',
  'approvals',
  'outbox',
]
/** What sessions of one portal have. */
export const sqlOf = (table: string, column: string): string | undefined =>
  ({
    portal: `'main'`,
    kind: `'changed'`,
    parent: table === 'sessions' ? `CASE WHEN n > 80000 THEN 'sid' || (n - 80000) END` : undefined,
    sid: table === 'visits' ? `'sid' || n` : undefined,
    idle: 'CASE WHEN n % 2 = 0 THEN n END',
    lease: '0',
    rev: '1',
    state: `'asked'`,
    agent: `'sid' || n`,
  })[column]
