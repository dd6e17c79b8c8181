import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createOrder,
  createTransport,
  isOver,
  newAccount,
  type OrderState,
  renewalId,
  step,
} from '@gatehouse/acme'
import { createFetch } from '@gatehouse/net'
import { buildCsr, fromPem, generateP256, parseCertificate, parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { storeFile } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { freePort } from '../../../../scripts/free-ports.ts'
import { createHome, readyUrl, serveMain } from '../helpers/service.ts'

const KILLS = Number(process.env.GATEHOUSE_KILLS ?? 10)
const CLIENTS = 4
const LOAD_MS = 400
const KEY = 'a-key-that-may-do-everything'

t.test(
  `ended ${KILLS} times while ACME clients order: one certificate for each order`,
  { timeout: Math.max(300_000, KILLS * 6_000) },
  async (t) => {
    const port = await freePort()
    const home = createHome(join(testFolder(t), 'service'))
    writeFileSync(
      join(home.base, 'config.yaml'),
      `server: { port: ${port}, tls: off }
metrics: { enabled: false }
log: { format: json }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { keys: [{ name: operator, key: ${KEY} }] } }
`,
    )
    const url = `http://127.0.0.1:${port}`
    const ending = new AbortController()
    const clients = Array.from({ length: CLIENTS }, (_, n) => orderOn(url, n, ending.signal))
    for (let kill = 0; kill < KILLS; kill += 1) {
      const running = serveMain(t, home)
      if ((await readyUrl(running)) === undefined) t.fail('it did not start')
      await sleep(Math.random() * LOAD_MS)
      running.child.kill(kill % 3 === 2 ? 'SIGTERM' : 'SIGKILL')
      await running.ended
    }
    const running = serveMain(t, home)
    await readyUrl(running)
    // Each comes to the end of what it has begun.
    ending.abort()
    const done = (await Promise.all(clients)).flat()
    running.child.kill('SIGTERM')
    await running.ended

    t.comment(`${done.length} orders`)
    t.ok(done.length >= CLIENTS, 'clients came to their certificates')
    t.strictSame(faultsOf(home.folder, done), [])
  },
)

interface Done {
  readonly orderUrl: string
  readonly fingerprint: string
  readonly serialNumber: string
}

/** A client that orders and renews until it is told to end, and after each error goes on from its saved state. */
async function orderOn(url: string, n: number, ending: AbortSignal): Promise<readonly Done[]> {
  const fetch = createFetch()
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const names = [`c${n}.example.com`].map(parseName)
  const connect = () =>
    createTransport({ directoryUrl: new URL(`${url}/acme/directory`), fetch, clock: systemClock })
  const done: Done[] = []
  const accountUrl = await insist(async () => {
    const headers = { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ caller: 'operator' })
    const answer = await fetch(`${url}/api/acme/key`, { method: 'POST', headers, body })
    const externalAccount = JSON.parse(answer.body.toString())
    return (await connect().send(newAccount(key, { externalAccount }), { key })).url
  })
  let replaces: string | undefined
  while (!ending.aborted || done.length === 0) {
    const csr = buildCsr(generateP256(), names)
    let state: OrderState = await createOrder({ csr, ...(replaces && { replaces }) })
    let transport = connect()
    let orderUrl = ''
    while (!isOver(state)) {
      const io = {
        transport,
        account: { accountUrl, key },
        solversFor: () => [],
        clock: systemClock,
        warn() {},
      }
      if ('orderUrl' in state) orderUrl = state.orderUrl
      state = await step(state, io).catch(async () => {
        await sleep(50)
        transport = connect()
        return state
      })
    }
    if (state.step === 'failed') throw new Error(`${state.error.code}: ${state.error.message}`)
    if (state.step !== 'downloaded') continue
    const [leaf] = fromPem(state.chain, 'CERTIFICATE') as [Buffer]
    const { fingerprint256: fingerprint, serialNumber } = parseCertificate(leaf)
    done.push({ orderUrl, fingerprint, serialNumber })
    replaces = renewalId(leaf)
  }
  await fetch.close()
  return done
}

async function insist<T>(run: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await run()
    } catch {
      await sleep(50)
    }
}

/** What the store has otherwise than clients were told, after the end. */
function faultsOf(folder: string, done: readonly Done[]): readonly string[] {
  using sqlite = new DatabaseSync(storeFile(folder))
  const rows = sqlite
    .prepare(
      'SELECT served_order AS "order", serial_number AS serial, is_current FROM certificates',
    )
    .all()
  const issued = Map.groupBy(rows, (row) => row.order)
  const find = sqlite.prepare('SELECT status, fingerprint FROM served_orders WHERE id = ?')
  const audit = sqlite.prepare(
    `SELECT action FROM audit WHERE serial_number = ? AND action IN ('issue', 'renew')`,
  )
  const faults: string[] = []
  for (const [order, all] of issued)
    if (all.length !== 1 || order === null) faults.push(`${order} has ${all.length} certificates`)
  for (const { serial } of rows)
    if (audit.all(serial as string).length !== 1) faults.push(`${serial} was not audited once`)
  for (const { orderUrl, fingerprint, serialNumber } of done) {
    const id = orderUrl.split('/').at(-1) ?? ''
    const order = find.get(id)
    if (order?.status !== 'valid') faults.push(`${id} is ${order?.status}`)
    if (order?.fingerprint !== fingerprint) faults.push(`${id} has another certificate`)
    if (issued.get(id)?.[0]?.serial !== serialNumber)
      faults.push(`${serialNumber} is not that of ${id}`)
  }
  const current = rows.filter((row) => row.is_current === 1n || row.is_current === 1)
  if (current.length > CLIENTS) faults.push(`${current.length} are in service`)
  return faults
}
