import type { RollRecord } from '@gatehouse/cert-store/port'
import { createRoot } from '@gatehouse/pki'
import t from 'tap'
import { type RollStep, rollInForce, rootsAt, stepOf } from '../../src/issuers/roll.ts'
import { DAY, NOW } from '../helpers/stage.ts'

const ROLL: RollRecord = { fromRoot: 1, toRoot: 4, stage: 'begun', begunAt: NOW, usedAt: null }
const USED: RollRecord = { ...ROLL, stage: 'used', usedAt: NOW + 14 * DAY }
const FINISHED: RollRecord = { ...USED, stage: 'finished' }
const CANCELLED: RollRecord = { ...ROLL, stage: 'cancelled' }
const QUIET = {
  now: NOW + 60 * DAY,
  inForce: { total: 0, renewable: 0, names: [], until: null },
  keyId: 'abcd',
  newRootUse: { inForce: { total: 0, renewable: 0, names: [], until: null }, keyId: 'dcba' },
  isCrossed: true,
  lostRoot: undefined,
  lacking: [],
  fetchedFrom: [],
}

t.test('what a stage means', async (t) => {
  t.strictSame(rootsAt(ROLL), { signer: 1, anchors: [1, 4] })
  t.strictSame(rootsAt(USED), { signer: 4, anchors: [4, 1] })
  t.strictSame(rootsAt(FINISHED), { signer: 4, anchors: [4] })
  t.strictSame(rootsAt(CANCELLED), { signer: 1, anchors: [1] })
})

t.test('each step at each stage', async (t) => {
  const wrong = (stage: string) => ({
    ...{ code: 'CERT_ROLL_REFUSED', message: stage },
    members: undefined,
  })
  for (const [roll, step, expected] of [
    [ROLL, 'use', { stage: 'used', usedAt: QUIET.now }],
    [ROLL, 'back', undefined],
    [ROLL, 'finish', wrong('the stage is begun, not used: use a new root first')],
    [USED, 'use', undefined],
    [USED, 'back', { stage: 'begun', usedAt: null }],
    [USED, 'finish', { stage: 'finished', usedAt: USED.usedAt }],
    [FINISHED, 'use', wrong('the stage is finished, not begun: begin again')],
    [
      FINISHED,
      'back',
      wrong('the stage is finished, not used: there is no way back from there, so begin again'),
    ],
    [FINISHED, 'finish', undefined],
    [ROLL, 'cancel', { stage: 'cancelled', usedAt: null }],
    [
      USED,
      'cancel',
      wrong('the stage is used, not begun: after use, go back first; after finish, begin again'),
    ],
    [
      FINISHED,
      'cancel',
      wrong(
        'the stage is finished, not begun: after use, go back first; after finish, begin again',
      ),
    ],
    [CANCELLED, 'cancel', undefined],
    [CANCELLED, 'use', wrong('the stage is cancelled, not begun: begin again')],
  ] as const)
    for (const isForced of [false, true]) {
      const what = `${step} at ${roll.stage}`
      const decide = () => stepOf(roll, step, QUIET, isForced)
      if (expected && 'code' in expected) t.throws(decide, expected, what)
      else t.strictSame(decide(), expected, what)
    }
})

t.test('what a step waits for, unless it is forced', async (t) => {
  const lostRoot = await createRoot({ commonName: 'Oldest', now: NOW })
  const held = { total: 2, renewable: 1, names: ['a.test', 'b.test'], until: NOW + 70 * DAY }
  for (const [roll, step, facts, message] of [
    [ROLL, 'use', { now: NOW + 14 * DAY - 1 }, 'it is possible from 2030-01-15T00:00:00Z'],
    [ROLL, 'use', { now: NOW - DAY }, 'it is possible from 2030-01-15T00:00:00Z'],
    [ROLL, 'use', { now: NOW + 14 * DAY, inForce: held, lacking: ['a'] }, ''],
    [ROLL, 'use', { isCrossed: false }, ''],
    [ROLL, 'cancel', { now: NOW, inForce: held, lacking: ['a'], lostRoot }, ''],
    [
      ROLL,
      'cancel',
      { newRootUse: { inForce: held, keyId: 'dcba' } },
      '2 certificates below the new root are in force until 2030-03-12T00:00:00Z, such as a.test, b.test: ' +
        'renew 1 of them by `gatehouse-certs renew --under dcba`',
    ],
    [ROLL, 'use', { isCrossed: false, lacking: ['web'] }, 'clients that lack the new root: web'],
    [ROLL, 'use', { lostRoot }, 'it cuts off whoever trusts only CN=Oldest'],
    [
      ROLL,
      'use',
      { now: NOW, lostRoot },
      'it is possible from 2030-01-15T00:00:00Z; it cuts off whoever trusts only CN=Oldest',
    ],
    [USED, 'back', { now: NOW, inForce: held, lacking: ['a'], lostRoot }, ''],
    [USED, 'finish', { lostRoot }, ''],
    [USED, 'finish', { now: NOW + 44 * DAY - 1 }, 'it is possible from 2030-02-14T00:00:00Z'],
    [USED, 'finish', { now: NOW + 44 * DAY }, ''],
    [
      USED,
      'finish',
      { inForce: held },
      '2 certificates below the old root are in force until 2030-03-12T00:00:00Z, such as a.test, b.test: ' +
        'renew 1 of them by `gatehouse-certs renew --under abcd`',
    ],
    [
      USED,
      'finish',
      { inForce: { ...held, renewable: 0 } },
      '2 certificates below the old root are in force until 2030-03-12T00:00:00Z, such as a.test, b.test: ' +
        'they were replaced or nobody fetches them, so wait until they end',
    ],
    [USED, 'finish', { lacking: ['web', 'edge'] }, 'clients that lack the new root: web, edge'],
    [
      USED,
      'finish',
      { lacking: 'abcdefghijkl'.split('') },
      'clients that lack the new root: a, b, c, d, e, f, g, h, i, j and 2 more',
    ],
    [
      USED,
      'finish',
      { now: NOW, inForce: held, lacking: ['web'] },
      'it is possible from 2030-02-14T00:00:00Z; 2 certificates below the old root are in force ' +
        'until 2030-03-12T00:00:00Z, such as a.test, b.test: renew 1 of them by `gatehouse-certs renew --under abcd`; clients that lack the new root: web',
    ],
  ] as const) {
    const decide = (isForced: boolean) =>
      stepOf(roll, step as RollStep, { ...QUIET, ...facts }, isForced)
    if (message === '') t.ok(decide(false), step)
    else {
      const command = {
        use: /ca roll use --force` does not/,
        finish: /ca roll finish --force` does/,
      }
      const members = step === 'cancel' ? undefined : { action: Object(command)[step] }
      t.throws(() => decide(false), { code: 'CERT_ROLL_REFUSED', message, members })
    }
    t.ok(decide(true), `${step} by force`)
  }
})

t.test('which roll says which root signs', async (t) => {
  const rolls = [USED, { ...FINISHED, fromRoot: 0, toRoot: 1 }]
  for (const [newest, configured, expected] of [
    [4, undefined, USED],
    // A root that no roll led to, such as one of the configuration that is not there any more.
    [9, undefined, undefined],
    [4, 1, USED],
    [4, 4, USED],
    [9, 4, USED],
    [9, 9, undefined],
    [4, 0, undefined],
  ] as const)
    t.equal(rollInForce(rolls, { newest, configured }), expected, `${newest} ${configured}`)
  t.equal(rollInForce([], { newest: 1, configured: undefined }), undefined)
  for (const [configured, expected] of [
    [undefined, CANCELLED],
    [1, CANCELLED],
    [4, undefined],
  ] as const)
    t.equal(
      rollInForce([CANCELLED], { newest: 4, configured }),
      expected,
      `cancelled, ${configured}`,
    )
})
