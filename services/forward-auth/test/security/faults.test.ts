import type { Policy } from '@gatehouse/gate'
import { StoreError } from '@gatehouse/store'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { createPolicy } from '../../../../packages/gate/src/policy.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { Portal } from '../../src/portal/portals.ts'
import type {} from '../../src/session/assertion.ts'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  'AUTH_X',
  'could not be encrypted',
  'FST_ERR_X',
  'FWA_IDENTITY_UNSENDABLE',
  'STORE_UNAVAILABLE',
  'INTERNAL',
  'check refused',
  'the error page could not be rendered',
)

const YAML = yamlOf(
  portalOf(
    'main',
    `policies: { admin: 'Group("admin")' }, preflight: true, assertion: { hosts: ["*.example.com"] }`,
  ),
)
const POLICY = { query: '?policy=admin' }

/** Errors as they come, and some that say of themselves that all is well. */
const THROWN: readonly [what: string, thrown: unknown][] = [
  ['an error', new Error('boom')],
  ['an error of status 200', Object.assign(new Error('boom'), { statusCode: 200, status: 200 })],
  ['an error of status 204', Object.assign(new Error('boom'), { code: 'AUTH_X', statusCode: 204 })],
  [
    'a fault with a status',
    Object.assign(new Error('boom'), { code: 'FST_ERR_X', statusCode: 302 }),
  ],
  ['one of ours', new StoreError('STORE_UNAVAILABLE', 'boom')],
  ['a text', 'OK'],
  ['a number', 200],
  ['an answer', { statusCode: 200, body: 'OK' }],
  ['nothing', undefined],
  ['null', null],
]

type Fail = () => never
/** Breaks something that checks use, and returns a function that repairs it. */
type Break = (app: FastifyInstance, fail: Fail) => () => void

/** Replaces members of an object until the returned function is called. */
function replace(target: object, change: object): () => void {
  const before = Object.getOwnPropertyDescriptors(target)
  Object.assign(target, change)
  return () => {
    for (const key of Object.keys(change)) Reflect.deleteProperty(target, key)
    Object.defineProperties(target, before)
  }
}

function replacePortals({ portals }: FastifyInstance, change: object): () => void {
  const before = [...portals]
  const map = portals as Map<string, Portal>
  for (const [name, portal] of before) {
    const changes = Object.getOwnPropertyDescriptors(change)
    map.set(name, Object.defineProperties({ ...portal }, changes) as Portal)
  }
  return () => {
    for (const [name, portal] of before) map.set(name, portal)
  }
}

/** Changes the gates in place, for portals that no session has been seen at. */
function replaceGates(app: FastifyInstance, change: object): () => void {
  const restore = replacePortals(app, {})
  const gates = [...app.portals.values()].map(({ gate }) => gate)
  const before = gates.map((gate) => Object.getOwnPropertyDescriptors(gate))
  for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(change)))
    for (const gate of gates)
      Object.defineProperty(gate, name, { ...descriptor, configurable: true })
  return () => {
    gates.forEach((gate, i) => {
      Object.defineProperties(gate, before[i]!)
    })
    restore()
  }
}

function failingPolicy(holds: Fail): Policy {
  const policy = createPolicy('admin', 'true')
  return { ...policy, condition: { ...policy.condition!, holds } }
}

/** Everything that a check relies on, and how it breaks. */
const POINTS: Readonly<Record<string, Break>> = {
  portals: ({ portals }, fail) => replace(portals, { get: fail }),
  trust: ({ trust }, fail) => replace(trust, { trusts: fail }),
  sites: ({ sites }, fail) => replace(sites, { find: fail }),
  sessions: ({ sessions }, fail) => replace(sessions, { atApp: fail }),
  'records of sessions': ({ sessions }, fail) => replace(sessions.records, { find: fail }),
  'the note of who is in use': ({ sessions }, fail) => replace(sessions.records, { noteUse: fail }),
  'the store of sessions': ({ authStore, sessions }, fail) => {
    const { find } = sessions.records
    // As one that no instance has read yet.
    const forgetful = (sid: string) => {
      sessions.records.forget(sid)
      return find.call(sessions.records, sid)
    }
    const restore = [
      replace(sessions.records, { find: forgetful }),
      replace(authStore, { findSession: async () => fail() }),
    ]
    return () => {
      for (const each of restore) each()
    }
  },
  'the rule of the portal': (app, fail) => replacePortals(app, { admits: fail }),
  'the policy of the route': (app, fail) =>
    replaceGates(app, { policies: new Map([['admin', failingPolicy(fail)]]) }),
  rules: (app, fail) =>
    replaceGates(app, {
      rules: [
        { config: {}, tests: [['paths', fail]], admission: { demanded: [], purpose: 'anyone' } },
      ],
    }),
  programs: (app, fail) =>
    replaceGates(app, {
      programs: {
        resources: Object.defineProperty([{}], Symbol.iterator, { value: fail }),
        challenges: () => [],
      },
    }),
  assertions: ({ assertions }, fail) => replace(assertions, { for: fail }),
  headers: (app, fail) => replaceGates(app, { headers: [{ name: 'x-it', value: fail }] }),
  'the list of headers': (app, fail) =>
    replaceGates(app, Object.defineProperty({}, 'headers', { get: fail })),
  'the address of a session': (app, fail) => {
    const corp = { type: 'seamless', fits: fail, failing: () => false } as never
    return replacePortals(app, { providers: new Map([['corp', corp]]) })
  },
  clock: ({ clock }, fail) => replace(clock, { now: fail }),
}

t.test('nobody passes while a dependency of the check is broken', async (t) => {
  const test = await startApp(t, YAML)
  const { app } = test
  const cookie = await test.signIn('main', { groups: ['admin'] })
  for (const [point, breakAt] of Object.entries(POINTS)) {
    const passes = await test.check(SHAPES[0]!, { cookie }, POLICY)
    t.equal(passes.statusCode, 200, 'whole, it passes')
    let thrown: unknown
    let times = 0
    const fail = (): never => {
      times += 1
      throw thrown
    }
    const repair = breakAt(app, fail)
    for (const [what, error] of THROWN) {
      thrown = error
      for (const [who, statuses] of Object.entries(await askAll(test, cookie)))
        t.ok(
          statuses.every((status) => status >= 300),
          `${point} throws ${what}, ${who}: ${statuses}`,
        )
    }
    t.ok(times >= THROWN.length, `${point} was asked`)
    repair()
  }
})

/** The statuses of all proxies, with a session and without. */
async function askAll({ check }: TestApp, cookie: string): Promise<Record<string, number[]>> {
  const kinds = { 'signed in': { cookie }, 'a page': { ...BROWSER, cookie }, nobody: {} }
  const statuses: Record<string, number[]> = {}
  for (const [who, headers] of Object.entries(kinds))
    statuses[who] = await Promise.all(
      SHAPES.map(async (shape) => {
        const asked = shape.path.includes('/any/')
          ? { ...shape, path: shape.path.replace('/any/', '/admin/') }
          : shape
        const options = asked === shape ? POLICY : {}
        const answer = await check(asked, headers, options)
        return answer.statusCode
      }),
    )
  return statuses
}
