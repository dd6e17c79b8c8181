import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AcmeError,
  afterError,
  createOrder,
  createTransport,
  isOver,
  newAccount,
  type OrderState,
  renewalId,
  step,
} from '@gatehouse/acme'
import type { Clock } from '@gatehouse/net'
import {
  buildCsr,
  fromPem,
  generateP256,
  type KeyPair,
  parseCertificate,
  parseCsr,
  parseName,
} from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { signRequest } from '../../../../packages/acme/src/protocol/jws.ts'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import {
  type Fault,
  FaultyService,
  faultyNetwork,
  lost,
  type Network,
} from '../helpers/acme-faults.ts'
import { DAY } from '../helpers/app.ts'

const RUNS = Number(process.env.GATEHOUSE_FAULT_RUNS ?? 80)
const SEED = process.env.GATEHOUSE_FAULT_SEED
const HOUR = 3_600_000
/** Sequences on one store. */
const OF_SERVICE = 20
const DIRECTORY = new URL('http://127.0.0.1/acme/directory')

const simple = fc.constantFrom<Fault>(
  { what: 'lost-request' },
  { what: 'lost-answer' },
  { what: 'twice' },
  { what: 'lost-nonce' },
  { what: 'used-nonce' },
  { what: 'stop' },
  { what: 'term' },
  { what: 'rival' },
  { what: 'revoke' },
)
const clock = fc
  .constantFrom(-3 * DAY, -2 * HOUR, 0, 2 * HOUR, 4 * DAY, 9 * DAY)
  .map((to): Fault => ({ what: 'clock', to }))
const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 8, arbitrary: simple },
  { weight: 2, arbitrary: clock },
  {
    weight: 4,
    arbitrary: fc.record({
      what: fc.constant('store' as const),
      fault: fc.record({
        at: fc.nat(8),
        how: fc.constantFrom('refuse' as const, 'kill' as const),
        isDone: fc.boolean(),
      }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constant('kill' as const), isAnswered: fc.boolean() }),
  },
)
const power = fc.constant<Fault>({ what: 'power' })

/** One certificate that the client comes for. */
const wish = fc.record({
  isSameKey: fc.boolean(),
  isReplacing: fc.boolean(),
  isTurned: fc.boolean(),
  later: fc.constantFrom(0, HOUR, 4 * DAY),
})

const sceneWith = (powers: number) =>
  fc.record({
    faults: fc
      .array(
        fc.tuple(
          fc.nat(45),
          fc.oneof({ weight: 20, arbitrary: fault }, { weight: powers, arbitrary: power }),
        ),
        {
          maxLength: 10,
        },
      )
      .map((list): ReadonlyMap<number, Fault> => new Map(list)),
    replicas: fc.array(fc.nat(2), { minLength: 1, maxLength: 8 }),
    count: fc.integer({ min: 1, max: 3 }),
    wishes: fc.array(wish, { minLength: 1, maxLength: 3 }),
  })
type Scene = ReturnType<typeof sceneWith> extends fc.Arbitrary<infer T> ? T : never
type Wish = typeof wish extends fc.Arbitrary<infer T> ? T : never

/** An order as its account is told of it. */
interface Told {
  readonly csrs: Map<string, 'client' | 'rival'>
  certificate?: string
  expires: number
  replaces?: string
}

interface Row {
  readonly id: number
  readonly servedOrder: string | null
  readonly serial: string
  readonly fingerprint: string
  readonly isCurrent: number | boolean
  readonly revokedAt: number | null
  readonly notBefore: number
  readonly notAfter: number
  readonly madeAt: number
  readonly way: string | null
  readonly account: string | null
  readonly csr: Uint8Array
  readonly replacedBy: number | null
  readonly reason: 'named' | 'key' | 'address' | 'due'
}

const sequence = { last: 0 }

/** What one client and its rival do in a scene, and what they were told. */
class Client {
  readonly #service: FaultyService
  readonly #scene: Scene
  readonly #network: Network
  readonly key: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  readonly names: readonly string[]
  readonly told = new Map<string, Told>()
  readonly got: Buffer[] = []
  url = ''
  latest = 0
  #stop: (() => void) | undefined

  constructor(service: FaultyService, scene: Scene) {
    this.#service = service
    this.#scene = scene
    sequence.last += 1
    const n = sequence.last
    this.names = Array.from({ length: scene.count }, (_, i) => `n${n}-${i}.example.com`)
    this.#network = faultyNetwork({
      service,
      faults: scene.faults,
      replica: (n) => scene.replicas[n % scene.replicas.length] ?? 0,
      rival: () => this.rival(),
      revoke: async () => {
        if (this.got.length === 0) return
        await this.#sure(() =>
          service.call('POST', '/api/certificate/revoke', { domain: this.names[0] }),
        )
      },
      hear: (url, answer) => this.#hear(url, answer),
      stop: () => this.#stop?.(),
    })
  }

  get isLoud(): boolean {
    return this.#network.isLoud
  }

  /** Comes for all certificates of the scene, whatever happens. */
  async run(): Promise<void> {
    await this.#untilDone(async (transport) => {
      const { body } = await this.#sure(() =>
        this.#service.call('POST', '/api/acme/key', { caller: 'web' }),
      )
      const { url } = await transport.send(newAccount(this.key, { externalAccount: body }), {
        key: this.key,
      })
      this.url = url
    })
    let key = generateP256()
    for (const wish of this.#scene.wishes) {
      await this.#service.advance(wish.later)
      if (!wish.isSameKey) key = generateP256()
      await this.#obtain(wish, key)
    }
  }

  async #obtain({ isReplacing, isTurned }: Wish, key: KeyPair): Promise<void> {
    const last = this.got.at(-1)
    const names = isTurned ? this.names.toReversed() : this.names
    const options = {
      csr: buildCsr(key, names.map(parseName)),
      ...(isReplacing && last && { replaces: renewalId(last) ?? '' }),
    }
    for (let tries = 0; tries < 4; tries += 1) {
      const saved: { state: OrderState } = { state: await createOrder(options) }
      await this.#untilDone(async (transport, now) => {
        const io = {
          transport,
          account: { accountUrl: this.url, key: this.key },
          solversFor: () => [],
          clock: transport.clock,
          warn() {},
        }
        try {
          while (!isOver(saved.state)) {
            const { state } = saved
            if ('orderUrl' in state)
              this.#toldOf(state.orderUrl).csrs.set(state.request.csr ?? '', 'client')
            saved.state = JSON.parse(JSON.stringify(await step(state, io)))
          }
        } catch (error) {
          saved.state = afterError(saved.state, error, now())
          throw error
        }
      })
      const { state } = saved
      if (state.step === 'failed') this.#requireReason(state)
      if (state.step !== 'downloaded') continue
      this.got.push(fromPem(state.chain, 'CERTIFICATE')[0] as Buffer)
      return
    }
    throw new Error('no certificate after four orders')
  }

  /** An order fails because it expired, or as somebody else finalized it. */
  #requireReason({ error }: Extract<OrderState, { step: 'failed' }>): void {
    const isRivalled = [...this.told.values()].some(({ csrs }) =>
      [...csrs.values()].includes('rival'),
    )
    if (error.code === 'ACME_CERTIFICATE_MISMATCH' && isRivalled) return
    if (error.code === 'ACME_ORDER_NOT_READY' && isRivalled) return
    const isLate = [...this.told.values()].some(({ expires }) => expires <= this.latest)
    if (error.code === 'ACME_ORDER_INVALID' && isLate) return
    throw new Error(`the order failed by ${error.code}: ${error.message}`)
  }

  /** Whoever shares the account finalizes its open orders with another key. */
  async rival(): Promise<void> {
    for (const [url, told] of this.told) {
      const csr = buildCsr(generateP256(), this.names.map(parseName)).toString('base64url')
      const answer = await this.post(`${url}/finalize`, { csr })
      if (answer.status < 400) told.csrs.set(csr, 'rival')
    }
  }

  /** A request that nothing happens to. */
  async post(url: string, payload?: object) {
    return this.#sure(async () => {
      const head = { method: 'HEAD' }
      const { headers } = await this.#service.send(0, new URL('/acme/new-nonce', url), head)
      const nonce = String(headers['replay-nonce'])
      const jws = signRequest({ key: this.key, accountUrl: this.url }, { url, nonce }, payload)
      const type = { 'content-type': 'application/jose+json' }
      const sent = { method: 'POST', headers: type, body: JSON.stringify(jws) }
      const answer = await this.#service.send(0, new URL(url), sent)
      const { status } = answer
      const text = answer.body.toString()
      if (status === 503 || status === 429 || text.includes('badNonce')) throw lost()
      this.#hear(new URL(url), answer)
      return { status, text, body: text.startsWith('{') ? JSON.parse(text) : undefined }
    })
  }

  async #sure<T>(run: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries += 1)
      try {
        return await run()
      } catch (error) {
        if (tries === 50) throw error
        await this.#wait(tries < 5 ? 1_000 : 60_000)
        if (tries > 3) await sleep(50)
      }
  }

  /** Starts a process of the client again and again, until it has done its work. */
  async #untilDone(
    work: (
      transport: ReturnType<typeof createTransport> & { clock: Clock },
      now: () => number,
    ) => Promise<void>,
  ): Promise<void> {
    let failure: unknown
    for (let tries = 0; tries < 60; tries += 1) {
      const clock = this.#clock()
      const transport = createTransport({
        directoryUrl: DIRECTORY,
        fetch: this.#network.fetch,
        clock,
      })
      const stopped = new Promise<'stopped'>((resolve) => {
        this.#stop = () => resolve('stopped')
      })
      const end = await Promise.race([
        stopped,
        work(Object.assign(transport, { clock }), clock.now).then(
          () => 'done' as const,
          (error: AcmeError) => error,
        ),
      ])
      if (end === 'done') return
      if (end === 'stopped') continue
      failure = end
      if (!('code' in end)) throw end
      await this.#wait(Math.max(end.retryAfterMs ?? 0, tries < 20 ? 1_000 : HOUR))
      // A database that comes back does not go by this clock.
      if (tries > 3) await sleep(50)
    }
    throw new Error('no end', { cause: failure })
  }

  #clock(): Clock {
    const { clock } = this.#service
    return {
      now: clock.now,
      setTimer: (fn, ms) => {
        let isOn = true
        void this.#wait(ms).then(() => isOn && fn())
        return { cancel: () => (isOn = false) }
      },
    }
  }

  async #wait(ms: number): Promise<void> {
    await this.#service.advance(ms)
  }

  #hear(
    url: URL,
    answer: { status: number; headers: Record<string, unknown>; body: Buffer },
  ): void {
    this.latest = Math.max(this.latest, this.#service.clock.now())
    const location = answer.headers.location ?? url.href.replace('/finalize', '')
    if (answer.status >= 300 || !String(location).includes('/acme/order/')) return
    const body = JSON.parse(answer.body.toString())
    const told = this.#toldOf(String(location))
    told.expires = Date.parse(body.expires)
    if (body.replaces) told.replaces = body.replaces
    if (body.certificate === undefined) return
    told.certificate ??= body.certificate
    demand(told.certificate === body.certificate, 'an order has two certificates')
  }

  #toldOf(url: string): Told {
    const told = this.told.get(url) ?? { csrs: new Map(), expires: Number.POSITIVE_INFINITY }
    this.told.set(url, told)
    return told
  }
}

/** Looks at what is left when all is over. */
async function check(service: FaultyService, client: Client): Promise<void> {
  const rows = await service.sql<Row>(`
    SELECT id, served_order AS "servedOrder", serial_number AS serial, fingerprint, is_current AS "isCurrent",
      revoked_at AS "revokedAt", not_before AS "notBefore", not_after AS "notAfter", made_at AS "madeAt",
      way, account, csr, replaced_by AS "replacedBy", replacement_reason AS reason
    FROM @certificates WHERE searched LIKE '%${client.names[0]}%' OR domain LIKE '${client.names[0]?.split('-')[0]}-%'
    ORDER BY id`)
  // The driver of PostgreSQL gives big integers as texts.
  const certificates = rows.map((row) => ({
    ...row,
    id: Number(row.id),
    notBefore: Number(row.notBefore),
    notAfter: Number(row.notAfter),
    madeAt: Number(row.madeAt),
    replacedBy: row.replacedBy === null ? null : Number(row.replacedBy),
  }))
  const account = client.url.split('/').at(-1)
  for (const row of certificates) {
    demand(row.way === 'acme' && row.account === account, 'a certificate does not say who has it')
    const audit = await service.sql(
      `SELECT action FROM @audit WHERE serial_number = '${row.serial}' AND action IN ('issue', 'renew')`,
    )
    demand(audit.length === 1, `${audit.length} audit rows of an issuance`)
  }
  const orders = certificates.map(({ servedOrder }) => servedOrder)
  demand(new Set(orders).size === orders.length, 'two certificates were issued for an order')
  const of = new Map(certificates.map((row) => [row.fingerprint, row]))
  for (const [url, told] of client.told) await checkOrder(client, { url, told, of })
  checkInventory(client, certificates, of)
}

interface Looked {
  readonly url: string
  readonly told: Told
  readonly of: ReadonlyMap<string, Row>
}

async function checkOrder(client: Client, { url, told, of }: Looked): Promise<void> {
  const { status, text, body } = await client.post(url)
  const isLate = told.expires <= client.latest && told.certificate === undefined
  if (status !== 200) return demand(false, `an order is lost: ${text}`)
  const id = url.split('/').at(-1)
  const own = [...of.values()].find(({ servedOrder }) => servedOrder === id)
  if (body.status !== 'valid') {
    demand(!own && told.certificate === undefined, `an order with a certificate is ${body.status}`)
    const isOpen = body.status === 'ready' || (body.status === 'invalid' && isLate)
    return demand(isOpen, `an order ends ${body.status}`)
  }
  const fingerprint = body.certificate.split('/').at(-1)
  const row = of.get(fingerprint)
  if (!row) return demand(false, 'the certificate of an order is not in the store')
  demand(!own || own === row, 'an order does not have the certificate that was issued for it')
  const { spki } = parseCertificate(
    fromPem((await client.post(body.certificate)).text, 'CERTIFICATE')[0] as Buffer,
  )
  for (const csr of told.csrs.keys()) {
    const again = await client.post(`${url}/finalize`, { csr })
    const isOwn = Buffer.from(csr, 'base64url').includes(spki)
    if (isOwn)
      demand(again.body?.certificate === body.certificate, `the same finalize: ${again.text}`)
    else demand(again.text.includes('orderNotReady'), `a finalize with another key: ${again.text}`)
  }
  const isAsked = [...told.csrs.keys()].some((csr) => Buffer.from(csr, 'base64url').includes(spki))
  demand(isAsked, 'a certificate is for a key that nobody who has the order sent')
}

/** What is out of service was revoked, replaced or due; what was replaced is out of service. */
function checkInventory(client: Client, rows: readonly Row[], of: ReadonlyMap<string, Row>): void {
  const idOf = new Map(
    client.got.map((der) => [parseCertificate(der).serialNumber, renewalId(der)]),
  )
  const ended = [...client.told.values()].filter(({ certificate }) => certificate !== undefined)
  for (const row of rows) {
    const id = idOf.get(row.serial)
    const successors = ended.filter(
      ({ replaces, certificate }) =>
        id !== undefined && replaces === id && certificate?.split('/').at(-1) !== row.fingerprint,
    )
    if (successors.length > 0) demand(!row.isCurrent, 'a replaced certificate is in service')
    if (row.isCurrent || row.revokedAt !== null) continue
    const next = rows.find(({ id }) => id === row.replacedBy)
    demand(next !== undefined, 'a certificate is out of service for no reason')
    if (!next) continue
    const lifetime = row.notAfter - row.notBefore
    const age = next.madeAt - row.notBefore
    const isMisdated = age < -60_000
    const isMet = {
      // Also of a certificate that followed the named one, and that nobody fetched.
      named: successors.length > 0 || id === undefined,
      key: spkiOf(next).equals(spkiOf(row)),
      address: age > lifetime / 10,
      due: age >= lifetime * 0.45 - 1 || isMisdated,
    }[row.reason]
    demand(isMet, `a certificate is replaced without reason: ${row.reason}`)
  }
  demand(of.size === rows.length, 'a certificate is there twice')
}

const spkiOf = ({ csr }: Row) => parseCsr(Buffer.from(csr)).spki

function demand(holds: boolean, message: string): void {
  if (!holds) throw new Error(message)
}

/** Runs scenes, several on each service. */
async function play(
  t: Test,
  scenes: fc.Arbitrary<Scene>,
  numRuns: number,
  server?: PostgresServer,
) {
  let service: FaultyService | undefined
  let left = 0
  const seen = { orders: 0, faults: 0, requests: 0 }
  const stop = async () => {
    await service?.close()
    service = undefined
  }
  t.teardown(stop)
  const base = testFolder(t)
  await fc.assert(
    fc.asyncProperty(scenes, async (scene) => {
      if (left-- === 0 || !service) {
        await stop()
        service = new FaultyService(`${base}/${seen.faults}-${seen.orders}`, server)
        left = OF_SERVICE
      }
      const client = new Client(service, scene)
      try {
        service.setClock(0)
        await service.calm()
        await client.run()
        const warned = service.warnings()
        demand(client.isLoud || warned.length === 0, `the log warns: ${warned[0]}`)
        await service.calm()
        await check(service, client)
        const isQuiet = service.warnings().length === 0
        demand(isQuiet, 'the log warns when all is over')
      } catch (error) {
        left = 0
        throw error
      }
      seen.orders += client.told.size
      seen.faults += scene.faults.size
    }),
    { numRuns, ...(SEED !== undefined && { seed: Number(SEED) }) },
  )
  t.comment(`${numRuns} sequences, ${seen.faults} faults, ${seen.orders} orders`)
  t.pass()
}

const SHARED = Math.ceil(RUNS / 10)

t.test(
  `${RUNS - SHARED} orders with any faults on a store in a file`,
  { timeout: 7_200_000 },
  (t) => play(t, sceneWith(2), RUNS - SHARED),
)

t.test(`${SHARED} orders with any faults at three replicas`, { timeout: 7_200_000 }, async (t) =>
  play(t, sceneWith(1), SHARED, await startPostgres(t)),
)
