// The oracle of the endurance run: what it lets pass, and what it does not.

import { createCrl, createIntermediate, createRoot } from '@gatehouse/pki'
import t from 'tap'
import { type CaCertificate, plainSerial } from '../endurance/acme-ca.ts'
import { readCrl } from '../endurance/crl.ts'
import type { Evidence, StoredCertificate } from '../endurance/evidence.ts'
import { type Entry, Journal } from '../endurance/journal.ts'
import { readOptions } from '../endurance/options.ts'
import { judge } from '../endurance/oracle/judge.ts'
import { isHeld } from '../endurance/oracle/verdict.ts'
import { createRandom } from '../endurance/random.ts'

const STALENESS = 5_000
/** When the load ended, in ms since the start. */
const END = 500_000
const LIFETIME = 180_000
const ORIGIN = 1_800_000_000_000

const exchange = (sent: number, status = 200, replica = 'cert-1') => ({
  replica,
  sent,
  answered: sent + 10,
  status,
})

function told(serial: string, at: number, changes = {}) {
  const notAfter = ORIGIN + at + LIFETIME
  const own = { issuer: 'pebble', cached: false, hasItsKey: true, renewAt: undefined, root: 'A' }
  return { serial, fingerprint: `f-${serial}`, notAfter, ...own, ...changes }
}

const issue = (sent: number, serial: string, changes = {}, replica?: string): Entry => ({
  kind: 'issue',
  name: 'a.example',
  ...exchange(sent, 200, replica),
  told: told(serial, sent, changes),
})

const read = (sent: number, serial: string | undefined, replica?: string): Entry => ({
  kind: 'read',
  name: 'a.example',
  ...exchange(sent, serial === undefined ? 404 : 200, replica),
  told: serial === undefined ? undefined : told(serial, sent, { cached: true }),
})

const revoke = (sent: number, serials: readonly string[], changes = {}): Entry => ({
  kind: 'revoke',
  name: 'a.example',
  ...exchange(sent),
  serials,
  unconfirmed: [],
  ...changes,
})

const remove = (sent: number): Entry => ({
  kind: 'delete',
  name: 'a.example',
  ...exchange(sent, 204),
  serials: [],
  unconfirmed: [],
})

const crl = (
  sent: number,
  number: bigint,
  serials: readonly string[] = [],
  replica?: string,
): Entry => ({
  kind: 'crl',
  ...exchange(sent, 200, replica),
  list: { issuer: 'k', number, serials: new Set(serials) },
})

const step = (sent: number, stage: 'begun' | 'used' | 'finished', changes = {}): Entry => ({
  kind: 'roll',
  ...exchange(sent),
  stage,
  signing: stage === 'begun' ? 'A' : 'B',
  ...{ from: 'A', to: 'B', unconfirmed: [] },
  ...changes,
})

const roots = (sent: number, subjects: readonly string[], replica?: string): Entry => ({
  kind: 'roots',
  ...exchange(sent, 200, replica),
  subjects,
})

const session = (
  kind: 'sign-in' | 'sign-out' | 'check',
  sent: number,
  status = 200,
  replica = 'auth-1',
): Entry => ({ kind, ...exchange(sent, status, replica), person: 'p', session: 1 })

/** Certificates of the ACME CA and of the store, made at these times. */
function made(...ones: readonly [serial: string, at: number][]) {
  const atCa = ones.map(([serial, at]): CaCertificate => ({ serial, name: 'a.example', at }))
  const stored = ones.map(([serial, at], id): StoredCertificate => {
    const notBefore = ORIGIN + at
    const validity = { notBefore, notAfter: notBefore + LIFETIME, renewAt: null }
    return {
      id,
      issuer: 'pebble',
      name: 'a.example',
      serial,
      fingerprint: `f-${serial}`,
      servedOrder: null,
      authority: 'k',
      ...validity,
    }
  })
  return { atCa, stored }
}

const NAMES = [
  'made once',
  'serials',
  'ACME orders',
  'kept',
  'withdrawn',
  'ended sessions',
  'live sessions',
  'CRL numbers',
  'CRL content',
  'roots',
  'audit',
  'sign-in audit',
]

interface Case {
  readonly what: string
  readonly entries: readonly Entry[]
  readonly evidence?: Partial<Evidence>
  readonly during?: (journal: Journal) => void
  /** Promises that are broken. */
  readonly broken?: readonly string[]
  readonly excused?: number
}

/** With rows for everything that the entries say, unless the case is about them. */
function evidenceFor({ entries, evidence }: Case): Evidence {
  const action = { issue: 'issue', renew: 'renew', read: 'hand-out' } as const
  const audit = entries.flatMap((entry) => {
    if (entry.kind === 'issue' || entry.kind === 'renew' || entry.kind === 'read')
      return entry.told
        ? {
            action: entry.told.cached ? 'hand-out' : action[entry.kind],
            names: [entry.name],
            serial: entry.told.serial,
          }
        : []
    if (entry.kind === 'revoke' || entry.kind === 'delete')
      return { action: entry.kind, names: [entry.name], serial: null }
    return []
  })
  const signIns = entries.flatMap(({ kind }) =>
    kind === 'sign-in' || kind === 'sign-out' ? { event: kind, person: 'demo:p' } : [],
  )
  return { atCa: [], stored: [], orders: [], audit, signIns, timeOrigin: ORIGIN, ...evidence }
}

const partition = (replica: string, from: number, to: number) => (journal: Journal) =>
  void journal.faults.push({ what: 'partition', replica, from, to })

const outage = (from: number, to: number) => (journal: Journal) =>
  void journal.faults.push({ what: 'database', replica: undefined, from, to })

const order = (id: string, serial: string | undefined): Entry => ({
  kind: 'acme order',
  name: 'client-0.own.example',
  ...exchange(0),
  order: id,
  serial,
})

/** Certificates that were issued for orders; each order has the first of its own. */
function ordered(...ones: readonly [serial: string, order: string][]): Partial<Evidence> {
  const { stored } = made(...ones.map(([serial]): [string, number] => [serial, 0]))
  const name = 'client-0.own.example'
  const orders = ones.map(([serial, id]) => ({ id, status: 'valid', fingerprint: `f-${serial}` }))
  return {
    stored: stored.map((row, n) => ({
      ...row,
      name,
      issuer: 'ca',
      servedOrder: ones[n]?.[1] ?? '',
    })),
    orders: orders.toReversed(),
  }
}

const ofOurs = (...serials: readonly string[]): Partial<Evidence> => {
  const { stored } = made(...serials.map((serial): [string, number] => [serial, 0]))
  return {
    stored: stored.map((row) => ({ ...row, issuer: 'ca', notBefore: row.notBefore - 60_000 })),
  }
}

const CASES: readonly Case[] = [
  {
    what: 'a certificate that is answered again',
    entries: [issue(0, 'a'), issue(100, 'a', { cached: true }), read(END, 'a')],
    evidence: made(['a', 0]),
  },
  {
    what: 'two certificates for one wave',
    entries: [issue(0, 'a'), issue(5, 'b', {}, 'cert-2')],
    evidence: made(['a', 0], ['b', 5]),
    broken: ['made once'],
  },
  {
    what: 'a certificate that nobody has',
    entries: [issue(0, 'b')],
    evidence: { ...made(['b', 5]), atCa: made(['a', 0], ['b', 5]).atCa },
    broken: ['made once', 'made once'],
  },
  {
    what: 'a renewal that is due',
    entries: [issue(0, 'a'), issue(95_000, 'b')],
    evidence: made(['a', 0], ['b', 95_000]),
  },
  {
    what: 'two renewals of one',
    entries: [issue(0, 'a'), issue(95_000, 'b'), issue(96_000, 'c')],
    evidence: made(['a', 0], ['b', 95_000], ['c', 96_000]),
    broken: ['made once'],
  },
  {
    what: 'one after a revocation, and one after a deletion',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a']),
      issue(6_000, 'b'),
      remove(9_000),
      issue(10_000, 'c'),
    ],
    evidence: made(['a', 0], ['b', 6_000], ['c', 10_000]),
  },
  {
    what: 'two after one revocation',
    entries: [issue(0, 'a'), revoke(5_000, ['a']), issue(6_000, 'b'), issue(6_100, 'c')],
    evidence: made(['a', 0], ['b', 6_000], ['c', 6_100]),
    broken: ['made once'],
  },
  {
    what: 'a serial number of two certificates',
    entries: [issue(0, 'a'), issue(10, 'a', { fingerprint: 'other' })],
    evidence: made(['a', 0]),
    broken: ['serials', 'kept'],
  },
  {
    what: 'an order of an ACME client',
    entries: [order('o', 'a')],
    evidence: ordered(['a', 'o']),
  },
  {
    what: 'an order that is lost',
    entries: [order('other', 'a')],
    evidence: ordered(['a', 'o']),
    broken: ['ACME orders'],
  },
  {
    what: 'two certificates of one order',
    entries: [order('o', 'a')],
    evidence: ordered(['a', 'o'], ['b', 'o']),
    broken: ['ACME orders'],
  },
  {
    what: 'an order that failed, and goes on',
    entries: [order('o', undefined)],
    evidence: { orders: [{ id: 'o', status: 'processing', fingerprint: null }] },
    broken: ['ACME orders'],
  },
  {
    what: 'a certificate that is not in the store',
    entries: [issue(0, 'a')],
    evidence: made(),
    broken: ['kept'],
  },
  {
    what: 'another key',
    entries: [issue(0, 'a', { hasItsKey: false })],
    evidence: made(['a', 0]),
    broken: ['kept'],
  },
  {
    what: 'a certificate that one replica does not answer in the end',
    entries: [issue(END - 9_000, 'a'), read(END, 'a'), read(END, undefined, 'cert-2')],
    evidence: made(['a', END - 9_000]),
    broken: ['kept'],
  },
  {
    what: 'an older certificate in the end',
    entries: [issue(END - 99_000, 'a'), issue(END - 1_000, 'b'), read(END, 'a')],
    evidence: made(['a', END - 99_000], ['b', END - 1_000]),
    broken: ['kept'],
  },
  {
    what: 'nothing in the end, after a deletion',
    entries: [issue(0, 'a'), remove(5_000), read(END, undefined)],
    evidence: made(['a', 0]),
  },
  {
    what: 'what was revoked, asked for before that was answered',
    entries: [issue(0, 'a'), revoke(5_000, ['a']), read(5_005, 'a')],
    evidence: made(['a', 0]),
  },
  {
    what: 'what was revoked, after that was answered',
    entries: [issue(0, 'a'), revoke(5_000, ['a']), read(5_020, 'a', 'cert-2')],
    evidence: made(['a', 0]),
    broken: ['withdrawn'],
  },
  {
    what: 'what was deleted, after that was answered',
    entries: [issue(0, 'a'), remove(5_000), read(5_020, 'a', 'cert-2')],
    evidence: made(['a', 0]),
    broken: ['withdrawn'],
  },
  {
    what: 'what was revoked, by a replica that is named and cut off',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['cert-2'] }),
      read(14_000, 'a', 'cert-2'),
    ],
    evidence: made(['a', 0]),
    during: partition('cert-2', 4_000, 14_500),
    excused: 1,
  },
  {
    what: 'nothing in the end, after a replica that is named and cut off answered it last',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['cert-2'] }),
      read(14_000, 'a', 'cert-2'),
      read(END, undefined),
    ],
    evidence: made(['a', 0]),
    during: partition('cert-2', 4_000, 14_500),
    excused: 1,
  },
  {
    what: 'nothing in the end, after such a replica issued another one',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['cert-2'] }),
      issue(END - 9_000, 'b', {}, 'cert-2'),
      read(END, undefined),
    ],
    evidence: made(['a', 0], ['b', END - 9_000]),
    during: partition('cert-2', END - 10_000, END - 9_500),
    broken: ['kept'],
  },
  {
    what: 'what was revoked, by a replica that is named and was connected again',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['cert-2'] }),
      read(30_000, 'a', 'cert-2'),
    ],
    evidence: made(['a', 0]),
    during: partition('cert-2', 4_000, 14_500),
    broken: ['withdrawn'],
  },
  {
    what: 'what was revoked just before the database was away',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['*'] }),
      read(14_000, 'a', 'cert-2'),
    ],
    evidence: made(['a', 0]),
    during: outage(4_990, 14_500),
    excused: 1,
  },
  {
    what: 'what was revoked just before the database was away, when it is back',
    entries: [
      issue(0, 'a'),
      revoke(5_000, ['a'], { unconfirmed: ['*'] }),
      read(30_000, 'a', 'cert-2'),
    ],
    evidence: made(['a', 0]),
    during: outage(4_990, 14_500),
    broken: ['withdrawn'],
  },
  {
    what: 'what was revoked, by a replica that is cut off and not named',
    entries: [issue(0, 'a'), revoke(5_000, ['a']), read(6_000, 'a', 'cert-2')],
    evidence: made(['a', 0]),
    during: partition('cert-2', 4_000, 14_500),
    broken: ['withdrawn'],
  },
  {
    what: 'a session that ends',
    entries: [
      ...[session('sign-in', 0, 303), session('check', 20), session('sign-out', 1_000)],
      ...[session('check', 1_100), session('check', 1_111, 401), session('check', 1_200, 401)],
    ],
  },
  {
    what: 'a session that passes after its logout',
    entries: [session('sign-in', 0, 303), session('sign-out', 1_000), session('check', 2_020)],
    broken: ['ended sessions'],
  },
  {
    what: 'a session that passes right after its logout, on a busy machine',
    entries: [session('sign-in', 0, 303), session('sign-out', 1_000), session('check', 1_990)],
  },
  {
    what: 'a session that passes after its logout, at a replica that is cut off',
    entries: [
      ...[session('sign-in', 0, 303), session('sign-out', 1_000)],
      session('check', 5_000, 200, 'auth-2'),
    ],
    during: partition('auth-2', 900, 11_000),
    excused: 1,
  },
  {
    what: 'a session that passes for too long, at a replica that is cut off',
    entries: [
      ...[session('sign-in', 0, 303), session('sign-out', 1_000)],
      session('check', 6_200, 200, 'auth-2'),
    ],
    during: partition('auth-2', 900, 11_000),
    broken: ['ended sessions'],
  },
  {
    what: 'somebody who is signed in and refused',
    entries: [session('sign-in', 0, 303), session('check', 20, 503), session('check', 40, 401)],
    broken: ['live sessions'],
  },
  {
    what: 'lists that grow',
    entries: [crl(0, 1n), crl(100, 1n, [], 'cert-2'), crl(200, 2n)],
  },
  {
    what: 'lists that were asked for at the same time',
    entries: [crl(0, 2n), crl(5, 1n, [], 'cert-2')],
  },
  {
    what: 'a list that goes back',
    entries: [crl(0, 2n), crl(100, 3n), crl(200, 2n, [], 'cert-2')],
    broken: ['CRL numbers'],
  },
  {
    what: 'a list that goes back at a replica that is cut off',
    entries: [crl(0, 2n), crl(100, 1n, [], 'cert-2')],
    during: partition('cert-2', 50, 150),
    excused: 1,
  },
  {
    what: 'a list with what was revoked',
    entries: [revoke(0, ['a']), crl(5, 1n), crl(20, 2n, ['a'])],
    evidence: ofOurs('a'),
  },
  {
    what: 'a list without what was revoked',
    entries: [revoke(0, ['a']), crl(20, 1n, ['b'])],
    evidence: ofOurs('a'),
    broken: ['CRL content'],
  },
  {
    what: 'a list of a root that signs no more, without what another one has signed',
    entries: [
      revoke(0, ['a']),
      { ...crl(20, 1n), list: { issuer: 'j', number: 1n, serials: new Set() } } as Entry,
      crl(30, 2n, ['a']),
    ],
    evidence: ofOurs('a'),
  },
  {
    what: 'the root of each stage',
    entries: [
      ...[step(0, 'begun'), roots(20, ['A', 'B']), issue(30, 'a', { issuer: 'ca' })],
      ...[step(50, 'used'), roots(70, ['B', 'A']), issue(80, 'b', { issuer: 'ca', root: 'B' })],
      ...[step(100, 'begun'), issue(120, 'c', { issuer: 'ca' })],
      ...[step(150, 'finished'), roots(170, ['B'], 'cert-2')],
    ],
    evidence: ofOurs('a', 'b', 'c'),
  },
  {
    what: 'what was asked for while the root changed',
    entries: [step(0, 'begun'), step(50, 'used'), issue(55, 'a', { issuer: 'ca' })],
    evidence: ofOurs('a'),
  },
  {
    what: 'the root of before, after a step that all know',
    entries: [step(0, 'used'), issue(20, 'a', { issuer: 'ca' }, 'cert-2')],
    evidence: ofOurs('a'),
    broken: ['roots'],
  },
  {
    what: 'the root of before, by a replica that is named and cut off',
    entries: [
      step(5_000, 'used', { unconfirmed: ['cert-2'] }),
      issue(14_000, 'a', { issuer: 'ca' }, 'cert-2'),
    ],
    evidence: ofOurs('a'),
    during: partition('cert-2', 4_000, 14_500),
    excused: 1,
  },
  {
    what: 'a root that is not published, and one that is no longer to be trusted',
    entries: [
      ...[step(0, 'begun'), roots(20, ['A'])],
      ...[step(50, 'finished'), roots(70, ['B', 'A'])],
    ],
    broken: ['roots', 'roots'],
  },
  {
    what: 'a step that is refused',
    entries: [step(0, 'used', { status: 409 })],
    broken: ['roots'],
  },
  {
    what: 'no row of an issuance',
    entries: [issue(0, 'a')],
    evidence: { ...made(['a', 0]), audit: [] },
    broken: ['audit'],
  },
  {
    what: 'a row of the issuance instead of the hand-out',
    entries: [issue(0, 'a', { cached: true })],
    evidence: {
      ...made(['a', 0]),
      audit: [{ action: 'issue', names: ['a.example'], serial: 'a' }],
    },
    broken: ['audit'],
  },
  {
    what: 'no row of a hand-out while the database was away',
    entries: [issue(0, 'a'), read(6_000, 'a', 'cert-2')],
    evidence: {
      ...made(['a', 0]),
      audit: [{ action: 'issue', names: ['a.example'], serial: 'a' }],
    },
    during: outage(4_000, 14_500),
    excused: 1,
  },
  {
    what: 'no row of an issuance before the database was away',
    entries: [issue(0, 'a'), read(30_000, 'a', 'cert-2')],
    evidence: {
      ...made(['a', 0]),
      audit: [{ action: 'hand-out', names: ['a.example'], serial: 'a' }],
    },
    during: outage(4_000, 14_500),
    broken: ['audit'],
  },
  {
    what: 'one row of two revocations',
    entries: [revoke(0, []), revoke(100, [])],
    evidence: { audit: [{ action: 'revoke', names: ['a.example'], serial: null }] },
    broken: ['audit'],
  },
  {
    what: 'no row of a logout',
    entries: [session('sign-in', 0, 303), session('sign-out', 1_000)],
    evidence: { signIns: [{ event: 'sign-in', person: 'demo:p' }] },
    broken: ['sign-in audit'],
  },
]

for (const one of CASES)
  t.test(`the oracle on ${one.what}`, async (t) => {
    const journal = new Journal()
    for (const entry of one.entries) journal.add(entry)
    one.during?.(journal)
    const { verdicts } = judge(journal, evidenceFor(one), END, { staleness: STALENESS })
    t.equal(verdicts.length, NAMES.length)
    const broken = verdicts.flatMap(({ broken }, n) => broken.map(() => NAMES[n]))
    t.strictSame(broken, one.broken ?? [])
    t.equal(
      verdicts.reduce((sum, { excused }) => sum + excused, 0),
      one.excused ?? 0,
    )
    t.ok(broken.length > 0 || one.excused || verdicts.some(({ held }) => held > 0), 'it looked')
  })

t.test('a run in which nothing was answered holds no promise', async (t) => {
  const journal = new Journal()
  journal.add(session('check', 0, 503))
  journal.add({ kind: 'issue', name: 'a.example', ...exchange(0, 503), told: undefined })
  const evidence = evidenceFor({ what: '', entries: [] })
  const { verdicts } = judge(journal, evidence, END, { staleness: STALENESS })
  t.notOk(verdicts.some(isHeld))
})

t.test('a revocation list is read', async (t) => {
  const now = ORIGIN
  const root = await createRoot({ commonName: 'root', now })
  const authority = await createIntermediate({ root, commonName: 'intermediate', now })
  const times = { thisUpdate: now, nextUpdate: now + 1_000 }
  const list = (number: bigint, serials: readonly string[]) =>
    readCrl(
      createCrl({
        ...{ authority, number, ...times },
        revoked: serials.map((serialNumber) => ({ serialNumber, revokedAt: now })),
      }),
    )
  t.match(list(1n, []), { number: 1n, serials: new Set(), issuer: authority.info.skid })
  const serials = ['00ff01', '0a0b0c']
  t.strictSame(list(300n, serials).serials, new Set(serials.map(plainSerial)))
  t.equal(list(300n, serials).number, 300n)
})

t.test('the same seed decides the same', async (t) => {
  const draw = (seed: number) => {
    const random = createRandom(seed).fork('chaos')
    return Array.from({ length: 20 }, () => random.below(1_000))
  }
  t.strictSame(draw(7), draw(7))
  t.notSame(draw(7), draw(8))
  t.strictSame(createRandom(7).some([1, 2, 3], 5).toSorted(), [1, 2, 3])
})

t.test('a short run has its share of names and requests', async (t) => {
  t.match(readOptions([], {}), { minutes: 20, names: 500, requests: 10_000, storage: 'postgres' })
  const env = { GATEHOUSE_ENDURANCE_MINUTES: '3', GATEHOUSE_ENDURANCE_SEED: '9' }
  t.match(readOptions([], env), { minutes: 3, names: 50, requests: 1_500, seed: 9 })
  t.throws(() => readOptions(['--minutes', 'many'], {}), TypeError)
})
