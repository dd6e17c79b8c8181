import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import auth from '@gatehouse/auth-core'
import Fastify, { type LightMyRequestResponse } from 'fastify'
import { AUDIENCE, startIssuer } from '../bench/harness/issuer.ts'
import { loadCertConfig } from '../services/cert-service/src/config/load.ts'
import { start } from '../services/cert-service/test/helpers/app.ts'
import { portalOf, startApp, yamlOf } from '../services/forward-auth/test/app.ts'
import { filesOf } from './coverage.ts'

/** What the service does for one request, and the files that a reader of it opens. */
export interface Story {
  readonly title: string
  /** How many files it may run through. */
  readonly limit: number
  readonly files: readonly string[]
}

/** What a story needs while it runs. */
interface Stage {
  teardown(close: () => unknown): void
  threw(error: Error): void
  /** Below the temporary folder of the system. */
  testdirName: string
  /** A new folder. */
  testdir(): string
}

interface Script {
  readonly title: string
  readonly limit: number
  /** Only files of this package count. */
  readonly within?: string
  /** Gives what is run: it does the same each time. */
  prepare(stage: Stage): Promise<(time: number) => Promise<unknown>>
}

const PORTAL = yamlOf(portalOf('main', `policies: { staff: 'Group("staff")' }`))
const CHECK = {
  url: '/portals/main?policy=staff',
  headers: {
    accept: 'text/html',
    'sec-fetch-mode': 'navigate',
    'x-forwarded-for': '198.51.100.7',
    'x-forwarded-host': 'app.example.com',
    'x-forwarded-method': 'GET',
    'x-forwarded-proto': 'https',
    'x-forwarded-uri': '/reports',
  },
}
const PERSON = { groups: ['staff'] }

const SCRIPTS: readonly Script[] = [
  {
    title: 'A check of a known session',
    limit: 13,
    async prepare(stage) {
      const { app, signIn } = await startApp(stage, PORTAL)
      const cookie = await signIn('main', PERSON)
      return () => expect(200, app.inject({ ...CHECK, headers: { ...CHECK.headers, cookie } }))
    },
  },
  {
    title: 'A check of a session seen for the first time',
    limit: 22,
    async prepare(stage) {
      const shared = `${PORTAL}\nstorage: { path: ${stage.testdir()} }\n`
      const { signIn } = await startApp(stage, shared)
      const cookies: string[] = []
      for (const sub of ['ada', 'bob', 'eve'])
        cookies.push(await signIn('main', { ...PERSON, sub }))
      const { app } = await startApp(stage, shared)
      return (time) =>
        expect(200, app.inject({ ...CHECK, headers: { ...CHECK.headers, cookie: cookies[time] } }))
    },
  },
  {
    title: 'A check when nobody is signed in',
    limit: 15,
    async prepare(stage) {
      const { app } = await startApp(stage, PORTAL)
      return () => expect(302, app.inject(CHECK))
    },
  },
  {
    title: 'A new certificate',
    limit: 26,
    async prepare(stage) {
      const { call } = await start(stage as Parameters<typeof start>[0])
      return (time) =>
        expectStatus(200, call('POST', '/api/certificate', { domain: `new-${time}.example.com` }))
    },
  },
  {
    title: 'A certificate that is held',
    limit: 15,
    async prepare(stage) {
      const { call } = await start(stage as Parameters<typeof start>[0])
      return () => expectStatus(200, call('POST', '/api/certificate', { domain: 'a.example.com' }))
    },
  },
  {
    title: 'A token whose keys are known',
    limit: 7,
    within: 'packages/auth-core/',
    async prepare(stage) {
      const issuer = await startIssuer()
      stage.teardown(issuer.close)
      const app = Fastify()
      stage.teardown(() => app.close())
      await app.register(auth, { jwt: { issuerUrl: issuer.url, audience: AUDIENCE } })
      app.get('/', { onRequest: app.requireCaller() }, () => 'ok')
      const tokens = issuer.tokens('ES256', 3)
      return (time) =>
        expect(200, app.inject({ url: '/', headers: { authorization: `Bearer ${tokens[time]}` } }))
    },
  },
  {
    title: 'A value of the configuration',
    limit: 8,
    async prepare(stage) {
      const file = join(stage.testdir(), 'config.yaml')
      writeFileSync(
        file,
        'storage: { path: data, masterKeyFile: keys/master.key }\nauth: { psk: { key: a-key-of-a-story } }\n',
      )
      return () => loadCertConfig(file, {})
    },
  },
]

/** Runs every story, and gives the files of each in the order of their running. */
export async function readStories(): Promise<Story[]> {
  const stories: Story[] = []
  for (const script of SCRIPTS) stories.push(await play(script))
  return stories
}

async function play({ title, limit, within = '', prepare }: Script): Promise<Story> {
  const opened: (() => unknown)[] = []
  const stage: Stage = {
    teardown: (close) => void opened.unshift(close),
    threw(error) {
      throw error
    },
    testdirName: tmpdir(),
    testdir() {
      const folder = mkdtempSync(join(tmpdir(), 'gatehouse-story-'))
      stage.teardown(() => rmSync(folder, { recursive: true }))
      return folder
    },
  }
  try {
    const run = await prepare(stage)
    await run(0)
    const files = await filesOf(async (time) => void (await run(time)))
    return { title, limit, files: files.filter((file) => file.startsWith(within)) }
  } finally {
    for (const close of opened) await close()
  }
}

async function expect(status: number, answer: Promise<LightMyRequestResponse>): Promise<void> {
  const { statusCode, payload } = await answer
  if (statusCode !== status) throw new Error(`answered ${statusCode}: ${payload}`)
}

async function expectStatus(wanted: number, answer: Promise<{ status: number; text: string }>) {
  const { status, text } = await answer
  if (status !== wanted) throw new Error(`answered ${status}: ${text}`)
}

if (import.meta.main)
  for (const { title, limit, files } of await readStories()) {
    console.log(`\n${title}: ${files.length} files, at most ${limit}`)
    for (const [at, file] of files.entries()) console.log(`${String(at + 1).padStart(4)}  ${file}`)
  }
