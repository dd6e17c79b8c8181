import { type ChallengeTask, createTransport, type Solver } from '@gatehouse/acme'
import type { AccountRecord, OrderRecord } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { type BoundedFetch, createFetch } from '@gatehouse/net'
import { buildCsr, generateP256, parseName } from '@gatehouse/pki'
import {
  hurriedClock,
  type Reply,
  type ScriptedCa,
  startScriptedCa,
} from '../../acme/test/scripted-ca/index.ts'
import type { Keyring } from '../../cert-store/src/sealing/keyring.ts'
import { AcmeAccount } from '../src/issuers/acme/account.ts'
import { createAcmeIssuer } from '../src/issuers/acme/issuer.ts'
import type { IssuerConfig } from '../src/options/issuers.ts'

/** What goes wrong at a point: of an answer, or of the whole process. */
export type Fault =
  | { readonly what: 'kill' | 'term' }
  /** `done`: the CA did what it was asked, and only its answer is this one. */
  | { readonly what: 'answer'; readonly reply: Reply; readonly done: boolean }

/** What is there whatever becomes of processes. */
export interface World {
  readonly ca: ScriptedCa
  readonly clock: Clock
  readonly fetch: BoundedFetch
  /** By their number; a point is a request, a write, or a change of DNS. */
  readonly faults: ReadonlyMap<number, Fault>
  /** The answers to challenges that stand. */
  readonly records: Map<string, ChallengeTask>
  /** What the CA said for good. */
  readonly stated: Set<string>
  points: number
  checkpoint: unknown
  account: AccountRecord | undefined
}

interface WorldOptions {
  readonly faults: ReadonlyMap<number, Fault>
  readonly validating: number
  readonly processing: number
  readonly reuseOrders: boolean
  readonly refuses: boolean
}

const NAMES = ['a.example', '*.a.example'].map(parseName)
const DIRECTORY = 'https://ca.example/directory'
const FINAL: readonly string[] = ['rejectedIdentifier', 'badCSR', 'caa']

export async function createWorld({ faults, refuses, ...options }: WorldOptions): Promise<World> {
  const clock = hurriedClock()
  const records = new Map<string, ChallengeTask>()
  const stated = new Set<string>()
  const ca = await startScriptedCa({
    now: clock.now,
    ...options,
    // It looks when it decides: the answer has to stand until then.
    async validate({ token, keyAuthorization }) {
      if (refuses) stated.add('ACME_CONNECTION')
      if (refuses) return 'connection'
      return records.get(token)?.keyAuthorization === keyAuthorization ? undefined : 'unauthorized'
    },
  })
  const none = { checkpoint: undefined, account: undefined }
  return { ca, clock, fetch: createFetch(), faults, records, stated, points: 0, ...none }
}

/** How a process ended. */
export type End =
  | { readonly what: 'issued'; readonly chain: readonly Uint8Array[] }
  | { readonly what: 'failed'; readonly error: unknown }
  | { readonly what: 'killed' }

const CODES: Readonly<Record<string, string>> = {
  rejectedIdentifier: 'ACME_REJECTED_IDENTIFIER',
  badCSR: 'ACME_BAD_CSR',
  caa: 'ACME_CAA',
}

/** One process that tries to come to a certificate, until it does, fails, or is ended. */
export async function runProcess(world: World, since: number): Promise<End> {
  const { ca, clock, records } = world
  const stop = new AbortController()
  const killed = Promise.withResolvers<End>()
  let isDead = false
  const never = new Promise<never>(() => {})

  /** The fault at the next point; what ends the process does so before anything else. */
  function next(): Fault | undefined {
    const fault = world.faults.get(world.points++)
    if (fault?.what === 'term') stop.abort(new Error('terminated'))
    if (fault?.what === 'kill') {
      isDead = true
      killed.resolve({ what: 'killed' })
    }
    return fault
  }

  /** Work that the end of the process may hit before or after it was done. */
  async function point<T>(work: () => T): Promise<T> {
    next()
    if (isDead) return never
    const result = work()
    next()
    return isDead ? never : result
  }

  for (const kind of KINDS)
    ca.always(kind, ({ kind }) => {
      const fault = next()
      if (fault?.what !== 'answer') return undefined
      const { reply, done } = fault
      const type = typeof reply === 'object' && typeOf(reply)
      const isStated = type && FINAL.includes(type) && (kind === 'newOrder' || kind === 'finalize')
      if (!isStated) return done ? { instead: reply } : reply
      world.stated.add(CODES[type] ?? '')
      return reply
    })

  const own: Clock = {
    now: clock.now,
    setTimer: (fn, ms) => clock.setTimer(() => isDead || fn(), ms),
  }
  const fetch = Object.assign(
    async (...args: Parameters<BoundedFetch>) => {
      if (isDead) return never
      const answer = await world.fetch(...args).catch((error) => {
        if (isDead) return never
        throw error
      })
      return isDead ? never : answer
    },
    { close: async () => {} },
  )
  const solver: Solver = {
    type: 'dns-01',
    locate: async () => 'challenges.example',
    present: (task) => point(() => void records.set(task.token, task)),
    cleanUp: (task) => point(() => void records.delete(task.token)),
  }
  const transport = createTransport({ directoryUrl: ca.directoryUrl, fetch, clock: own })
  const store = {
    findAccount: async () => world.account,
    addAccount: (account: AccountRecord) => point(() => (world.account ??= account)),
    saveAccount: (account: AccountRecord) => point(() => void Object.assign(world, { account })),
    findOrderByUrl: async (): Promise<OrderRecord | undefined> => undefined,
  }
  const keyring = {
    seal: (_: string, key: Uint8Array) => key,
    openAny: async (key: Uint8Array) => key,
  }
  const config = {
    name: 'acme',
    directory: DIRECTORY,
    names: ['*', '=*.a.example'],
    agreeToTerms: true,
    challenges: [{ type: 'dns-01' }],
  } as unknown as IssuerConfig
  const account = new AcmeAccount({
    ...config,
    transport,
    store,
    keyring: keyring as unknown as Keyring,
    limits: LIMITS,
    log: { info() {} },
  })
  const issuer = createAcmeIssuer(config, {
    server: {
      transport,
      account,
      isReachable: () => true,
      inTurn: (_, run) => run(),
      close: async () => {},
    },
    solvers: [solver],
    store,
    limits: LIMITS,
    clock: own,
    log: { warn() {} },
  })
  const key = generateP256()
  const issuing = Promise.resolve(
    issuer.issue(
      { names: NAMES, keyType: 'p256', spki: key.spki, csr: () => buildCsr(key, NAMES) },
      {
        report() {},
        checkpoint: world.checkpoint,
        save: (state) =>
          point(() => void Object.assign(world, { checkpoint: structuredClone(state) })),
        takeOver: async () => undefined,
        signal: stop.signal,
        since,
        patience: 20_000,
      },
    ),
  )
  return Promise.race([
    killed.promise,
    issuing.then(
      ({ certificate, chain }): End => ({ what: 'issued', chain: [certificate, ...chain] }),
      (error): End => ({ what: 'failed', error }),
    ),
  ])
}

const KINDS = [
  'directory',
  'newNonce',
  'newAccount',
  'account',
  'newOrder',
  'order',
  'authorization',
  'challenge',
  'finalize',
  'certificate',
] as const

const LIMITS = {
  async admitAccount() {},
  async registered() {},
  async admit() {},
  async resumed() {},
  async ordered() {},
  async failed() {},
  async issued() {},
}

function typeOf({ body }: Exclude<Reply, string>): string | undefined {
  const type = typeof body === 'object' && 'type' in body ? String(body.type) : ''
  return type.split(':').at(-1)
}
