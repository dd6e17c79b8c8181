import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { renewalId } from '@gatehouse/acme/server'
import { buildCsr, fromPem, generateP256, parseCertificate, parseName } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { backup, restore } from '../../../../packages/cert-store/src/backup/backup.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { AcmeClient, HOST } from '../helpers/acme-client.ts'
import { leapClock, NOW, type Running, settle, start } from '../helpers/app.ts'

const DAY = 86_400_000
const DAYS = 120
const OF_KIND = 25
/** A share of the lifetime, below which an alert fires. */
const ENDS_SOON = 0.2
const STOLEN = 'stolen.example.com'

/** How the machines of a kind get and renew certificates. */
interface Kind {
  readonly title: string
  /** Whether all of the kind have one name, one account, one address. */
  readonly shares: readonly ('name' | 'account' | 'address')[]
  readonly replaces?: boolean
  readonly keepsKey?: boolean
  readonly asks?: boolean
  /** Days after which it is built anew, and knows nothing any more. */
  readonly rebuiltEvery?: number
  readonly byApi?: boolean
}

const KINDS: readonly Kind[] = [
  { title: 'certbot', shares: [], replaces: true, asks: true },
  { title: 'old', shares: [] },
  { title: 'samekey', shares: [], keepsKey: true, asks: true },
  { title: 'fleet', shares: ['name'], replaces: true, asks: true },
  { title: 'nat', shares: ['name', 'account', 'address'] },
  { title: 'cluster', shares: ['name', 'account'] },
  { title: 'container', shares: [], rebuiltEvery: 23 },
  { title: 'api', shares: [], byApi: true },
]

/** A machine, and what it has. */
interface Machine {
  readonly kind: Kind
  readonly name: string
  readonly address: string
  readonly id: string
  key: ReturnType<typeof generateP256>
  account?: AcmeClient
  held?: Buffer
  isStopped?: boolean
}

/** The service over its restarts, and all that it has signed, as machines were given it. */
class World {
  readonly t: Test
  readonly clock = leapClock(NOW)
  readonly issued = new Map<string, { name: string; account: string }>()
  readonly accounts = new Map<string, AcmeClient>()
  folder: string
  keys: object[] = [
    { name: 'operator', key: 'a-key-that-may-do-everything' },
    { name: 'web', key: 'a-key-of-the-web-servers', domains: ['*.example.com'] },
  ]
  caller = 'web'
  running!: Running
  isAway = false

  constructor(t: Test) {
    this.t = t
    this.folder = testFolder(t)
  }

  async open(): Promise<void> {
    const config = {
      auth: { psk: { keys: this.keys } },
      server: { names: [HOST] },
      ca: { leafLifetime: '30d' },
      limits: {
        perName: { certificates: 2_000 },
        perCaller: { burst: 1_000, issuancesPerMinute: 1_000 },
      },
    }
    this.running = await start(this.t, config, { folder: this.folder, clock: this.clock })
    // The service renews what it made for programs while it listens.
    await this.running.app.listen({ port: 0, host: '127.0.0.1' })
    await this.running.app.callersFollowed()
    for (const client of this.accounts.values()) Object.assign(client, { app: this.running.app })
  }

  /** A day passes, in which the service renews what it renews itself. */
  async pass(): Promise<void> {
    await this.clock.advance(DAY)
    if (this.isAway) return
    const listing = { order: 'next', state: 'due', now: this.clock.now() } as const
    const isLeft = async () =>
      (await this.store.listCertificates(listing, { limit: 500 })).some(({ account }) => !account)
    for (let tries = 0; tries < 1_000 && (await isLeft()); tries += 1) await settle()
  }

  get store() {
    return this.running.service.store
  }

  async register(address: string): Promise<AcmeClient> {
    const client = new AcmeClient(this.running.app, { ip: address, agent: 'machine/1.0' })
    const { body } = await this.running.call('POST', '/api/acme/key', { caller: this.caller })
    await client.register(body)
    this.accounts.set(client.url.split('/').at(-1) ?? '', client)
    return client
  }

  async renew(machine: Machine): Promise<void> {
    const { kind, name } = machine
    const key = kind.keepsKey || kind.byApi ? machine.key : generateP256()
    const der = kind.byApi ? await this.#byApi(machine) : await this.#byAcme(machine, key)
    machine.held = der
    const account = machine.account?.url.split('/').at(-1) ?? ''
    this.issued.set(parseCertificate(der).serialNumber, { name, account })
  }

  async #byAcme(machine: Machine, key: Machine['key']): Promise<Buffer> {
    const { kind, name, held } = machine
    const account = machine.account as AcmeClient
    // Machines of one account have addresses of their own.
    const client = new AcmeClient(this.running.app, {
      key: account.key,
      ip: machine.address,
      agent: 'machine/1.0',
    })
    client.url = account.url
    const members = kind.replaces && held ? { replaces: renewalId(held) } : {}
    const [leaf] = await client.obtain([name], members, key)
    return leaf as Buffer
  }

  async #byApi({ name, key }: Machine): Promise<Buffer> {
    const csr = buildCsr(key, [parseName(name)]).toString('base64')
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${csr}\n-----END CERTIFICATE REQUEST-----\n`
    const { status, text, body } = await this.running.call('POST', '/api/certificate', {
      domain: name,
      csr: pem,
    })
    if (status !== 200) throw new Error(text)
    return fromPem(body.certificate, 'CERTIFICATE')[0] as Buffer
  }
}

function machinesOf(kind: Kind, n: number): Machine[] {
  return Array.from({ length: OF_KIND }, (_, i) => ({
    kind,
    id: `${kind.title}${i}`,
    name: `${kind.title}${kind.shares.includes('name') ? '' : i}.example.com`,
    address: `10.${n}.0.${kind.shares.includes('address') ? 0 : i}`,
    key: generateP256(),
  }))
}

/** Whether a machine renews now: as the service says if it asks, else with a third of the lifetime left. */
async function isDue(
  { running, clock }: World,
  { kind, held, account }: Machine,
): Promise<boolean> {
  if (!held || kind.byApi) return true
  const { notBefore, notAfter } = parseCertificate(held)
  if (!kind.asks) return clock.now() >= notBefore + (notAfter - notBefore) * 0.64
  const client = new AcmeClient(running.app)
  const url = client.at(`/acme/renewal-info/${renewalId(held)}`)
  const { body } = await client.get(url)
  return account !== undefined && Date.parse(body.suggestedWindow.start) <= clock.now()
}

const isAlive = (world: World, { held }: Machine) =>
  held !== undefined && parseCertificate(held).notAfter > world.clock.now()

/** What the alerts of the monitoring guide say, by name. */
async function alarms({ store, clock }: World): Promise<ReadonlySet<string>> {
  const { soonest } = await store.listEnding(clock.now(), 10_000)
  const share = ({ notBefore, notAfter }: (typeof soonest)[number]) =>
    (notAfter - clock.now()) / (notAfter - notBefore)
  return new Set(soonest.filter((one) => share(one) < ENDS_SOON).map(({ domain }) => domain))
}

/** Compares what the service says with what the machines have. */
async function look(t: Test, world: World, machines: readonly Machine[], day: number) {
  const now = world.clock.now()
  const heads = (await world.store.list({ after: 0, limit: 10_000 })).filter(
    ({ notAfter }) => notAfter > now,
  )
  const count = (names: readonly string[]) =>
    Object.fromEntries(
      [...Map.groupBy(names, (name) => name)].map(([name, all]) => [name, all.length]),
    )
  const found = count(heads.map(({ names }) => names[0] ?? ''))
  const living = count(machines.filter((one) => isAlive(world, one)).map(({ name }) => name))
  const wrong = Object.keys({ ...found, ...living }).filter((name) => {
    if (name === STOLEN) return found[name] !== 1
    const [has, holders] = [found[name] ?? 0, living[name] ?? 0]
    // A container that is built anew leaves a certificate behind, which is covered.
    return name.startsWith('container') ? has < holders || has > holders + 1 : has !== holders
  })
  if (wrong.length > 0)
    t.same(
      wrong.map((name) => [name, found[name] ?? 0]),
      wrong.map((name) => [name, living[name] ?? 0]),
      `day ${day}: lineages are holders`,
    )
  return wrong.length
}

t.test('a fleet of 200 machines over 120 days', { timeout: 1_800_000 }, async (t) => {
  expectWarnings(t, 'ACME accounts have ended with the API keys that have bound them')
  const world = new World(t)
  await world.open()
  const machines = KINDS.flatMap(machinesOf)
  const byKind = (title: string) => machines.filter(({ kind }) => kind.title === title)
  const raised = new Map<string, { day: number; address: unknown }>()
  let wrongDays = 0
  let thief: AcmeClient | undefined
  const saved = join(world.folder, 'backup.db')

  const events: Readonly<Record<number, () => Promise<void>>> = {
    // One machine of each of three kinds stops for good.
    30: async () => {
      for (const title of ['certbot', 'fleet', 'cluster'])
        Object.assign(byKind(title)[0] as Machine, { isStopped: true })
    },
    // The CA is away for four days.
    40: () => {
      world.isAway = true
      return world.running.close()
    },
    44: () => {
      world.isAway = false
      return world.open()
    },
    // The API key leaks: a thief makes an account and gets a certificate, until the value is replaced.
    58: async () => {
      thief = await world.register('192.0.2.66')
      const [leaf] = await thief.obtain([STOLEN])
      const { serialNumber } = parseCertificate(leaf as Buffer)
      const account = thief.url.split('/').at(-1) ?? ''
      world.issued.set(serialNumber, { name: STOLEN, account })
    },
    60: async () => {
      await world.running.close()
      world.keys = world.keys.map((key) =>
        'domains' in key ? { ...key, key: 'another-key-of-the-web-servers' } : key,
      )
      await world.open()
      const stolen = (thief as AcmeClient).url.split('/').at(-1) as string
      const refused = await (thief as AcmeClient).order(['stolen2.example.com'])
      t.ok(refused.status >= 400, 'the account of the thief has ended with the key')
      const { call } = world.running
      const { status, body } = await call('POST', `/api/acme/accounts/${stolen}/revoke`, {})
      t.equal(status, 200)
      const own = [...world.issued].filter(([, { account }]) => account === stolen)
      t.same(
        [...body.serialNumbers].sort(),
        own.map(([serial]) => serial).sort(),
        'each certificate of the thief is revoked',
      )
      const ids = [...world.accounts.keys()].filter((id) => id !== stolen)
      const adopted = await call('POST', '/api/acme/accounts/adopt', { caller: 'web', ids })
      t.equal(adopted.body.adopted, ids.length, 'the machines go on with their accounts')
      for (const certificate of await world.store.findByDomain(STOLEN))
        t.fail(`the thief still has ${certificate.serialNumber}`)
    },
    // A key of a machine leaks.
    70: async () => {
      const name = 'fleet.example.com'
      const living = [...world.issued].filter(([, one]) => one.name === name)
      const valid: string[] = []
      for (const [serial] of living)
        for (const one of await world.store.listBySerial(serial))
          if (one.notAfter > world.clock.now() && one.revokedAt === null) valid.push(serial)
      const about = { domain: name, reason: 'keyCompromise' }
      const { body } = await world.running.call('POST', '/api/certificate/revoke', about)
      const revoked = new Set(body.serialNumbers)
      t.same(
        valid.filter((serial) => !revoked.has(serial)),
        [],
        'each that the CA has issued is revoked',
      )
      for (const one of byKind('fleet')) if (one.isStopped) delete one.held
    },
    78: () => backup({ folder: join(world.folder, 'data'), file: saved }),
    // The store is restored from two days ago, over what it was.
    80: async () => {
      await world.running.close()
      const before = join(world.folder, 'data')
      const folder = join(world.folder, 'restored')
      mkdirSync(folder)
      cpSync(join(world.folder, 'keys'), join(folder, 'keys'), { recursive: true })
      mkdirSync(join(folder, 'data'), { mode: 0o700 })
      await restore({ folder: join(folder, 'data'), file: saved, over: before, forget: false })
      world.folder = folder
      await world.open()
      t.equal((await world.store.findByDomain(STOLEN)).length, 0)
    },
    // The caller gets another name.
    100: async () => {
      await world.running.close()
      world.keys = world.keys.map((key) =>
        'domains' in key ? { ...key, name: 'edge', formerNames: ['web'] } : key,
      )
      world.caller = 'edge'
      await world.open()
    },
  }

  for (let day = 0; day < DAYS; day += 1) {
    await events[day]?.()
    const { isAway } = world
    for (const [n, machine] of machines.entries()) {
      if (isAway || machine.isStopped) continue
      const { kind } = machine
      if (kind.rebuiltEvery && day > 0 && (day + n) % kind.rebuiltEvery === 0) {
        delete machine.account
        delete machine.held
      }
      const first = machines.find((one) => one.kind === kind) as Machine
      if (!kind.byApi && !machine.account)
        machine.account = kind.shares.includes('account')
          ? (first.account ?? (await world.register(first.address)))
          : await world.register(machine.address)
      if (kind.shares.includes('account')) first.account ??= machine.account as AcmeClient
      // Not all begin on one day.
      if (!machine.held && day < n % 10 && day < 10) continue
      if (await isDue(world, machine)) await world.renew(machine)
    }
    if (!isAway) {
      wrongDays += Math.min(1, await look(t, world, machines, day))
      for (const name of await alarms(world)) {
        if (raised.has(name)) continue
        const [late] = await world.store.findByDomain(name)
        raised.set(name, { day, address: late?.address })
      }
    }
    await world.pass()
  }
  t.equal(wrongDays, 0, 'on each day')
  const stopped = byKind('certbot')[0] as Machine
  t.same([...raised.keys()], [stopped.name], 'the one name that nobody renews, and no other')
  const { day = DAYS, address } = raised.get(stopped.name) ?? {}
  t.ok(day < 60, 'before its certificate ends')
  t.equal(address, stopped.address, 'with its machine')
  t.comment(`${world.issued.size} certificates`)
})
