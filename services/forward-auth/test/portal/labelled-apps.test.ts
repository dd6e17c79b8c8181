import { type BoundedFetch, NetError } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { buildReader } from '../../src/docker/reader.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { composed, containerOf } from '../docker/containers.ts'
import { hrefsIn } from '../pages/read.ts'
import { BROWSER } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'the apps of labels cannot be read')

const READER = 'http://docker-reader:2375'
const AT_SIGN_IN = { host: 'auth.example.com' }
const RULES = `policies: { admins: 'Group("admin")' }, rules: [{ hosts: [ops.example.com], require: admins }]`

/** A portal that asks a reader for apps, and what that answers. */
async function start(t: Test, options = RULES) {
  const reader = { answer: async () => '{"http":{}}', asked: [] as string[] }
  const fetch = async (url: URL | string) => {
    reader.asked.push(String(url))
    return { status: 200, headers: {}, body: Buffer.from(await reader.answer()) }
  }
  const createFetch = () => Object.assign(fetch, { close: async () => {} }) as BoundedFetch
  const yaml = yamlOf(portalOf('main', `appsFrom: "${READER}", ${options}`))
  const test = await startApp(t, yaml, undefined, { createFetch })
  reader.asked.length = 0
  const cookies = {
    member: await test.signIn('main', {}, AT_SIGN_IN),
    admin: await test.signIn('main', { groups: ['admin'] }, AT_SIGN_IN),
  }
  const apps = async (who: keyof typeof cookies = 'member') => {
    const headers = { ...BROWSER, ...AT_SIGN_IN, cookie: cookies[who] }
    const { body } = await test.app.inject({ url: '/portals/main/account', headers })
    return hrefsIn(body).filter((href) => !href.startsWith('https://auth.'))
  }
  /** Lets what was read before grow old. */
  const later = () => test.clock.advance(5_000)
  const asked = () => reader.asked.filter((url) => url.startsWith(READER)).length
  return { ...test, reader, apps, later, asked }
}

const routersOf = (...rules: string[]) =>
  JSON.stringify({ http: { routers: Object.fromEntries(rules.map((rule, i) => [i, { rule }])) } })

t.test('the apps that labels name are there for those who may open them', async (t) => {
  const { reader, apps, later } = await start(t)
  t.strictSame(await apps(), [], 'none yet')
  reader.answer = async () =>
    routersOf('Host(`notes.example.com`)', 'Host(`ops.example.com`)', 'Host(`tv.example.com`)')
  await later()
  const notes = ['https://notes.example.com/', 'https://tv.example.com/']
  t.strictSame(await apps(), notes)
  t.strictSame(await apps('admin'), ['https://ops.example.com/', ...notes], 'each once')
})

t.test('what docker-reader itself says of labels is read', async (t) => {
  const { reader, apps } = await start(t)
  const container = containerOf({ 'traefik.enable': 'true', ...composed('notes') })
  const docker = async (url: URL | string) => {
    const isList = new URL(url).pathname === '/containers/json'
    const body = Buffer.from(JSON.stringify(isList ? [container] : { Config: { Labels: null } }))
    return { status: 200, headers: {}, body }
  }
  const dockerReader = buildReader(
    { domain: 'example.com', reserved: ['auth.example.com'] },
    {
      log: createLogger({ name: 'test', level: 'silent', format: 'json' }),
      docker: Object.assign(docker, { close: async () => {} }) as BoundedFetch,
      now: Date.now,
    },
  )
  t.teardown(() => dockerReader.close())
  reader.answer = async () => (await dockerReader.inject('/')).body
  t.strictSame(await apps(), ['https://notes.example.com/'])
})

t.test('what is no host of an app is not listed, whatever the document says', async (t) => {
  const { reader, apps } = await start(t)
  reader.answer = async () =>
    routersOf(
      ...['Host(`auth.example.com`)', 'Host(`*.example.com`)', 'Host(`notes.example.org`)'],
      ...['HostRegexp(`.*`)', 'Host(`a.example.com`) || Host(`b.example.com`)', ''],
      ...['Host(`"><script>.example.com`)', 'Host(`c.example.com`)'],
    )
  t.strictSame(await apps(), ['https://c.example.com/'])
})

t.test(
  'while it does not answer, the apps of before stay, and it is asked every five seconds',
  async (t) => {
    const { reader, apps, later, asked, log } = await start(t)
    reader.answer = async () => routersOf('Host(`notes.example.com`)')
    const notes = ['https://notes.example.com/']
    t.strictSame(await Promise.all([apps(), apps(), apps()]), [notes, notes, notes])
    t.equal(asked(), 1)
    const outages: (() => Promise<string>)[] = [
      async () => {
        throw new NetError('NET_FETCH_TIMEOUT', `GET ${READER} took too long`)
      },
      async () => 'no JSON',
      async () => '[]',
      async () => '{"http":{"routers":{"x":{"rule":1}}}}',
    ]
    for (const outage of outages) {
      reader.answer = outage
      await later()
      t.strictSame(await apps(), notes)
    }
    t.equal(asked(), 1 + outages.length)
    const warnings = log.filter(({ msg }) => String(msg).startsWith('the apps of labels'))
    t.equal(warnings.length, 1, 'which is said once')
    reader.answer = async () => '{"http":{"services":{}}}'
    await later()
    t.strictSame(await apps(), [], 'no route, no app')
  },
)
