// Browsers look at what is served while a root takes the place of another one.
import { execFileSync } from 'node:child_process'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import {
  ENGINES,
  type EngineName,
  missingEngine,
  type Profile,
} from '../../../forward-auth/test/integration/engines.ts'
import { leapClock, type Running, start } from '../helpers/app.ts'

const HOST = 'app.test'
/** What is served, and which roots lead to it. */
const STAGES = {
  begun: { action: 'begin', acceptedBy: ['old', 'both'] },
  used: { action: 'use', acceptedBy: ['old', 'new', 'both'] },
} as const

async function step({ call }: Running, action: string): Promise<void> {
  const body = { action, ...(action === 'use' && { now: true }) }
  const { status, text } = await call('POST', '/api/ca/roll', body)
  if (status !== 200) throw new Error(text)
}

/** Serves a certificate of this stage, and gives the URL. */
async function serve(t: Test, { call }: Running, domain: string): Promise<string> {
  const { body } = await call('POST', '/api/certificate', { domain, names: [HOST] })
  const options = { cert: body.certificate, key: body.privateKey }
  const server = createServer(options, (_request, response) => void response.end('served'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `https://${HOST}:${(server.address() as AddressInfo).port}/`
}

async function isAccepted(profile: Profile, url: string): Promise<boolean> {
  const tab = await profile.tab()
  const isOpen = await tab.open(url).then(
    () => true,
    () => false,
  )
  return isOpen && (await tab.read('document.body.innerText')) === 'served'
}

function missing(engine: EngineName): string | false {
  if (engine !== 'webkit') return missingEngine(engine)
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' })
  } catch {
    return 'nothing may be mounted'
  }
  return missingEngine(engine)
}

t.test('browsers that trust the old root, the new one, or both', async (t) => {
  const running = await start(t, {}, { clock: leapClock(Date.now()) })
  const urls: (readonly [stage: keyof typeof STAGES, url: string])[] = []
  for (const stage of ['begun', 'used'] as const) {
    await step(running, STAGES[stage].action)
    urls.push([stage, await serve(t, running, `${stage}.test`)])
  }
  const { body } = await running.app.inject('/ca/root.pem')
  const both = body.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g) ?? []
  t.equal(both.length, 2)
  const [newest = '', old = ''] = both
  for (const engine of ['chromium', 'firefox', 'webkit'] as const)
    t.test(engine, { skip: missing(engine) }, async (t) => {
      for (const [trust, roots] of Object.entries({ old: [old], new: [newest], both })) {
        const profile = await (await ENGINES[engine](t, [HOST], roots))(t)
        for (const [stage, url] of urls) {
          const expected = STAGES[stage].acceptedBy.some((each) => each === trust)
          t.equal(await isAccepted(profile, url), expected, `${stage}: trust in ${trust}`)
        }
      }
    })
})
