import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { canMoveClocks, withClock, withClockIn } from '../helpers/clock.ts'
import {
  createHome,
  type Home,
  KEY,
  type RunningService,
  startService,
} from '../helpers/service.ts'

expectWarnings(t, 'the CA needs its operator', 'this CA begins in the future')

const skip = canMoveClocks ? false : 'needs the package faketime'
const DAY = 86_400_000

interface Answer {
  readonly status: number
  readonly text: string
  readonly bytes: Buffer
}

async function ask({ url }: RunningService, path: string, body?: object): Promise<Answer> {
  const response = await fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, text: bytes.toString(), bytes }
}

const get = (service: RunningService, domain: string) => ask(service, `/api/certificate/${domain}`)

/** The chain of an answer holds by this machine's clock, under the root that the service shows. */
async function holds(service: RunningService, { status, text }: Answer): Promise<boolean> {
  if (status !== 200) return false
  const pem: string = JSON.parse(text).certificate
  const [leaf, issuer] = pem
    .split(/(?<=-----END CERTIFICATE-----\n)/)
    .map((one) => new X509Certificate(one))
  const root = new X509Certificate((await ask(service, '/ca/root.pem')).text)
  const isNow = ({ validFromDate, validToDate }: X509Certificate) =>
    validFromDate.getTime() <= Date.now() && validToDate.getTime() > Date.now()
  return (
    [leaf!, issuer!, root].every(isNow) &&
    leaf!.verify(issuer!.publicKey) &&
    issuer!.verify(root.publicKey)
  )
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let n = 0; n < 480; n += 1) {
    if (await isSo()) return
    await sleep(250)
  }
  throw new Error(`not within two minutes: ${what}`)
}

const serialOf = ({ text }: Answer): string => JSON.parse(text).serialNumber
const post = (service: RunningService, domain: string) =>
  ask(service, '/api/certificate', { domain })

t.test(
  'a clock 5 days ahead for a while: all is valid soon after it is right',
  { skip },
  async (t) => {
    const home = createHome(join(testFolder(t), 'service'))
    const clock = join(home.base, 'clock')
    writeFileSync(clock, '+0')
    const service = await startService(t, home, [], withClockIn(clock))
    const before = serialOf(await post(service, 'before.test'))
    writeFileSync(clock, '+5d')
    await until('the clock is ahead', async () => {
      const { text } = await post(service, `${Math.random()}.test`)
      return Date.parse(JSON.parse(text).notBefore) > Date.now() + 4 * DAY
    })
    await post(service, 'ahead.test')
    await until('what is due by then is renewed', async () => {
      return serialOf(await get(service, 'before.test')) !== before
    })
    writeFileSync(clock, '+0')
    for (const domain of ['before.test', 'ahead.test'])
      await until(`${domain} is valid`, async () => holds(service, await get(service, domain)))
    await until('readyz is quiet', async () => {
      return (await ask(service, '/readyz')).text === '{"status":"ready","degraded":[]}'
    })
    await service.stop()
  },
)

/** What a service holds and has revoked after a while of a right clock. */
async function prepare(t: Test, home: Home) {
  const service = await startService(t, home)
  const held = serialOf(await post(service, 'held.test'))
  const revoked = serialOf(await post(service, 'revoked.test'))
  await ask(service, '/api/certificate/revoke', { domain: 'revoked.test' })
  const intermediate = (await ask(service, '/ca/intermediate.pem')).text
  const root = (await ask(service, '/ca/root.pem')).text
  await service.stop()
  return { held, revoked, intermediate, root }
}

for (const offset of ['+5d', '+45d', '+340d', '-2h'])
  t.test(`a start at ${offset} loses, withholds and revives nothing`, { skip }, async (t) => {
    const home = createHome(join(testFolder(t), 'service'))
    const { revoked, intermediate, root } = await prepare(t, home)

    const wrong = await startService(t, home, [], withClock(offset))
    t.equal((await post(wrong, 'held.test')).status, 200)
    t.equal((await post(wrong, 'new.test')).status, 200)
    t.equal((await get(wrong, 'revoked.test')).status, 404)
    const crl = (await ask(wrong, '/ca/crl.der')).status
    t.equal(crl, 200)
    await wrong.stop()

    const right = await startService(t, home)
    t.equal((await ask(right, '/ca/root.pem')).text, root)
    t.equal((await ask(right, '/ca/intermediate.pem')).text, intermediate)
    for (const domain of ['held.test', 'new.test'])
      t.ok(await holds(right, await post(right, domain)), domain)
    t.equal((await get(right, 'revoked.test')).status, 404)
    const list = (await ask(right, '/ca/crl.der')).bytes
    t.ok(list.includes(Buffer.from(revoked, 'hex')), 'it is still on the list')
    await until('readyz is quiet', async () => {
      return (await ask(right, '/readyz')).text === '{"status":"ready","degraded":[]}'
    })
    await right.stop()
  })
