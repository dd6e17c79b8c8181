import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { CertificateRecord, Store } from '@gatehouse/cert-store/port'
import { type Loops, repeat } from '@gatehouse/service-kit/lifecycle'
import t, { type Test } from 'tap'
import {
  NOW,
  newCertificate,
  newOrder,
  testStore,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { CertOutbox } from '../../src/events/outbox.ts'
import { DAY, leapClock, settle } from '../helpers/app.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The pause of the loop that sends. */
const SEND_EVERY = 1_000

/** What is due, which stays due. */
const peek = (store: Store, now: number, limit: number) =>
  store.claimDueEvents('webhook', now, limit, now)

/** A webhook with a receiver that answers `status`, and a clock that stands still. */
async function setup(t: Test) {
  const told: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      if (receiver.status === 200) told.push(JSON.parse(body).type)
      receiver.tries += 1
      response.writeHead(receiver.status).end()
    })
  })
  const receiver = { status: 200, tries: 0, told }
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { store } = await testStore(t)
  const clock = leapClock(NOW)
  const loops: Pick<Loops, 'add'> = {
    add(pause, run) {
      const loop = repeat(clock, pause, run, () => {})
      t.teardown(() => loop.stop())
    },
  }
  const webhook = new CertOutbox(
    [
      {
        name: 'webhook',
        type: 'webhook',
        allowHttp: false,
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        secret: 'a-secret-for-the-webhook',
        events: ['issued', 'renewed', 'failing', 'expiring'],
      },
    ],
    { store, clock, loops, log: { warn() {} } },
  )
  t.teardown(() => webhook.close())
  t.teardown(() => server.close())
  const isResting = () => clock.waiting(SEND_EVERY) === 1
  await settle(isResting)

  /** Lets it try what is due: gives how many events are kept after that. */
  async function turn(): Promise<number> {
    await clock.advance(SEND_EVERY)
    await settle(isResting)
    return (await store.countEvents()).webhook ?? 0
  }
  return { store, clock, receiver, webhook, turn }
}

const certificate = (overrides = {}): CertificateRecord =>
  ({ ...newCertificate(overrides), id: 1 }) as CertificateRecord

t.test(
  'a certificate that another one covered is told again when none does any more',
  async (t) => {
    const { clock, receiver, webhook, turn } = await setup(t)
    const late = certificate({ notBefore: NOW - 10 * DAY, notAfter: NOW })
    for (const [isCovered, told] of [
      [true, 1],
      [true, 1],
      [false, 2],
      [false, 2],
    ] as const) {
      webhook.emit({ type: 'expiring', certificate: late, isCovered })
      await settle()
      await turn()
      t.equal(receiver.told.length, told, `${isCovered} at ${clock.now()}`)
    }
  },
)

t.test('a clock that jumps ahead while a receiver is down gives no event up', async (t) => {
  for (const ahead of [5 * DAY, 45 * DAY, 340 * DAY]) {
    const { clock, receiver, webhook, turn } = await setup(t)
    receiver.status = 500
    webhook.emit({ type: 'issued', certificate: certificate() })
    await settle()
    t.equal(await turn(), 1)
    clock.shift(ahead)
    t.equal(await turn(), 1, 'kept, though more than seven days went by on the clock')
    t.equal(receiver.tries, 2)
    clock.shift(-ahead)
    receiver.status = 200
    await clock.advance(10 * MINUTE)
    t.equal(await turn(), 0)
    t.strictSame(receiver.told, ['issued'], `told after ${ahead / DAY} days ahead`)
  }
})

t.test('what a clock ahead put off is tried at once, or within a day', async (t) => {
  const { store } = await testStore(t)
  await store.addEvent({ body: 'x', at: NOW, receivers: ['webhook'] })
  const [event] = await peek(store, NOW, 1)
  for (const [nextAt, due] of [
    [NOW + 340 * DAY, 1],
    [NOW + 2 * DAY, 1],
    [NOW + DAY, 0],
    [NOW, 1],
  ] as const) {
    await store.delayEvent(event!.id, nextAt)
    t.equal((await peek(store, NOW, 9)).length, due, `${(nextAt - NOW) / DAY} days`)
  }
})

t.test('what a clock ahead told is told again when its time comes', async (t) => {
  for (const ahead of [5 * DAY, 340 * DAY]) {
    const { clock, receiver, webhook, turn } = await setup(t)
    const late = certificate({ notBefore: NOW, notAfter: NOW + 400 * DAY })
    const failing = newOrder({ status: 'failed', failures: 7 })
    const emit = async () => {
      webhook.emit({ type: 'expiring', certificate: late })
      webhook.emit({ type: 'failing', order: failing })
      await settle()
      await turn()
      await turn()
    }
    clock.shift(ahead)
    await emit()
    t.strictSame(receiver.told.toSorted(), ['expiring', 'failing'])
    await emit()
    t.equal(receiver.told.length, 2, 'once')
    clock.shift(-ahead)
    await webhook.prune()
    // As the clock comes to the time that the other clock showed.
    clock.shift(ahead - HOUR)
    await emit()
    t.equal(receiver.told.length, 4, `${ahead / DAY} days ahead: told by the right clock, too`)
    await emit()
    t.equal(receiver.told.length, 4, 'and once')
  }
})
