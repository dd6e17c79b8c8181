import t from 'tap'
import { FwaError } from '../../src/errors.ts'
import type { Portal } from '../../src/portals.ts'
import type { Service } from '../../src/service.ts'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

const YAML = yamlOf(portalOf('main', `policies: { admin: 'Group("admin")' }, preflight: true`))
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
  ['one of ours', new FwaError('FWA_STORE_UNAVAILABLE', 'boom')],
  ['a text', 'OK'],
  ['a number', 200],
  ['an answer', { statusCode: 200, body: 'OK' }],
  ['nothing', undefined],
  ['null', null],
]

type Fail = () => never
type Break = (service: Service, fail: Fail) => Partial<Service>

/** Everything that a check relies on, and how it breaks. */
const POINTS: Readonly<Record<string, Break>> = {
  portals: (_service, fail) => ({ portals: fail }),
  trust: ({ trust }, fail) => ({ trust: { ...trust, trusts: fail } }),
  sites: ({ sites }, fail) => ({ sites: { ...sites, find: fail } }),
  sessions: ({ sessions }, fail) => ({ sessions: { ...sessions, read: fail } }),
  'the rule of the portal': (service, fail) => withPortal(service, { admits: fail }),
  'the policy of the route': (service, fail) =>
    withPortal(service, { policies: new Map([['admin', fail]]) }),
  headers: (service, fail) => withPortal(service, { headers: [{ name: 'x-it', value: fail }] }),
  'the list of headers': (service, fail) =>
    withPortal(service, Object.defineProperty({}, 'headers', { get: fail })),
  'the address of a session': (service, fail) => {
    const corp = { type: 'seamless', fits: fail, failing: () => false } as never
    return withPortal(service, { providers: new Map([['corp', corp]]) })
  },
  // Last, since sessions keep it.
  clock: ({ clock }, fail) => ({ clock: Object.assign(clock, { now: fail }) }),
}

function withPortal(service: Service, change: object): Partial<Service> {
  const portals = new Map(
    [...service.portals()].map(([name, portal]) => [
      name,
      Object.defineProperties({ ...portal }, Object.getOwnPropertyDescriptors(change)) as Portal,
    ]),
  )
  return { portals: () => portals }
}

t.test('nobody passes while a dependency of the check is broken', async (t) => {
  const test = await startApp(t, YAML)
  const { service } = test
  const whole = { ...service }
  const cookie = test.signIn('main', { groups: ['admin'] })
  for (const [point, breakAt] of Object.entries(POINTS)) {
    const passes = await test.check(SHAPES[0]!, { cookie }, POLICY)
    t.equal(passes.statusCode, 200, 'whole, it passes')
    let thrown: unknown
    let times = 0
    const fail = (): never => {
      times += 1
      throw thrown
    }
    Object.assign(service, breakAt(service, fail))
    for (const [what, error] of THROWN) {
      thrown = error
      for (const [who, statuses] of Object.entries(await askAll(test, cookie)))
        t.ok(
          statuses.every((status) => status >= 300),
          `${point} throws ${what}, ${who}: ${statuses}`,
        )
    }
    t.ok(times >= THROWN.length, `${point} was asked`)
    Object.assign(service, whole)
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
