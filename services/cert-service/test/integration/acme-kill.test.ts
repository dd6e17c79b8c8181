import { createPrivateKey, X509Certificate } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseCsr } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import {
  type Exchange,
  type Kind,
  type Reply,
  startScriptedCa,
} from '../../../../packages/acme/test/scripted-ca/index.ts'
import { freePort } from '../../../../scripts/free-ports.ts'
import { createHome, obtain, readyUrl, serveMain, startService } from '../helpers/service.ts'

const KILLS = Number(process.env.GATEHOUSE_KILLS ?? 54)
const KINDS: readonly Kind[] = [
  'newAccount',
  'directory',
  'newNonce',
  'newOrder',
  'order',
  'authorization',
  'challenge',
  'finalize',
  'certificate',
]

t.test(
  `killed ${KILLS} times at whatever it asks of the CA: nothing is lost, nothing finalised twice`,
  async (t) => {
    const ca = await startScriptedCa({ reuseOrders: true })
    t.teardown(() => ca.close())
    const home = createHome(join(testFolder(t), 'service'))
    appendFileSync(join(home.base, 'config.yaml'), configOf(ca.directoryUrl))
    const hit = new Set<Kind>()
    let next: Kind | undefined
    let kill = () => {}
    /** The CA does what it is asked, and nobody is there to hear of it. */
    const watch = (exchange: Exchange): Reply | undefined => {
      ca.answer(exchange.kind, watch)
      if (exchange.kind === next) {
        hit.add(next)
        kill()
      }
      return undefined
    }
    for (const kind of KINDS) ca.answer(kind, watch)

    const domains = Array.from({ length: KILLS }, (_, i) => `k${i}.example`)
    for (const [i, domain] of domains.entries()) {
      const running = serveMain(t, home)
      kill = () => running.child.kill('SIGKILL')
      // What an earlier kill left behind is gone on with at the same time.
      next = KINDS[i % KINDS.length]
      const url = await readyUrl(running)
      const answer =
        url === undefined ? undefined : await obtain(url, domain).catch(() => undefined)
      if (answer) kill()
      await running.ended
    }
    next = undefined

    const service = await startService(t, home)
    for (const domain of domains) {
      const { status, body } = await service.obtain(domain)
      if (status !== 200) t.fail(`${domain}: ${status} ${body.code}`)
      const key = createPrivateKey(body.privateKey)
      if (!new X509Certificate(body.certificate).checkPrivateKey(key)) t.fail(`${domain}: key`)
    }
    await service.stop()

    t.same([...hit].sort(), [...KINDS].sort(), 'every kind of request was one of the last')
    const finalised = ca.exchanges.filter(({ kind }) => kind === 'finalize')
    const names = await Promise.all(finalised.map(({ payload }) => namesOf(payload.csr)))
    t.same(names.sort(), domains.toSorted(), 'each name was finalised once')
    t.equal(ca.count('newAccount'), accountsAsked(ca.exchanges), 'one account key')
  },
)

t.test('stopped by SIGTERM while the CA validates: one order, one certificate', async (t) => {
  const port = await freePort()
  const seen: number[] = []
  const ca = await startScriptedCa({
    validating: 4,
    // The answer is what the CA sees at that moment, also of a service that was just restarted.
    async validate({ token, keyAuthorization }) {
      const path = `http://127.0.0.1:${port}/.well-known/acme-challenge/${token}`
      const answer = await fetch(path)
      seen.push(answer.status)
      return (await answer.text()) === keyAuthorization ? undefined : 'connection'
    },
  })
  t.teardown(() => ca.close())
  const home = createHome(join(testFolder(t), 'terminated'))
  appendFileSync(join(home.base, 'config.yaml'), configOf(ca.directoryUrl, port))

  const running = serveMain(t, home)
  const url = (await readyUrl(running)) ?? ''
  ca.answer('challenge', () => {
    running.child.kill('SIGTERM')
    return undefined
  })
  const answer = obtain(url, 'term.example').catch(() => undefined)
  await running.ended
  await answer

  const service = await startService(t, home)
  // The order is taken up by itself; whoever asks joins it.
  t.match(await service.obtain('term.example'), { status: 200 })
  await service.stop()
  t.strictSame(seen, [200])
  t.equal(ca.count('newOrder'), 1)
  t.equal(ca.count('finalize'), 1)
})

/** A caller waits for its certificate, however long a busy machine takes. */
function configOf(directoryUrl: URL, port = 0): string {
  return `issuance: { wait: 4m }
issuers:
  - name: acme
    type: acme
    directory: ${directoryUrl.href}
    challenges: [{ type: http-01, listen: { port: ${port} } }]
`
}

async function namesOf(csr: string): Promise<string> {
  const { names } = await parseCsr(Buffer.from(csr, 'base64url'))
  return names.map(({ text }) => text).join()
}

/** How often newAccount was asked with the key of the first time. */
function accountsAsked(exchanges: readonly Exchange[]): number {
  const keys = exchanges
    .filter(({ kind }) => kind === 'newAccount')
    .map(({ header }) => header.jwk?.x)
  return keys.filter((x) => x === keys[0]).length
}
