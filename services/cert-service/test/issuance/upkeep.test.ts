import t from 'tap'
import { post, startAcme } from '../helpers/acme.ts'
import { DAY, NOW, type Running, rest, start } from '../helpers/app.ts'

/** Lets time pass in steps, each of which finds what is due. */
async function pass({ clock, service }: Running, ms: number, step = DAY / 4) {
  for (let passed = 0; passed < ms; passed += step) {
    await clock.advance(step)
    await rest(clock, service.issuance)
  }
}

const currentOf = async ({ service }: Running, domain = 'a.test') =>
  (await service.store.findByDomain(domain))[0]

const time = (at: number) => new Date(at).toISOString()

t.test('why the CA would have it renewed then is told wherever `renewAt` is', async (t) => {
  let explanationURL: string | undefined
  const window = { start: time(NOW + 10 * DAY), end: time(NOW + 12 * DAY) }
  const { running } = await startAcme(t, {
    renewalWindow: () => ({ ...window, ...(explanationURL && { explanationURL }) }),
  })
  running.service.start()
  const domain = 'app.example.com'
  await post(running)
  const told = async () => {
    await pass(running, DAY / 2)
    const listed = (await running.call('GET', '/api/certificates')).body.certificates
    const dry = await running.call('POST', '/api/certificate?dryRun=true', { domain })
    const found = await running.call('GET', `/api/certificate/${domain}`)
    const bodies = [(await post(running)).body, found.body, dry.body.held, ...listed]
    const urls = bodies.map((body) => body.renewalExplanationUrl)
    t.equal(urls.length, 4)
    t.equal(new Set(urls).size, 1, 'the same everywhere')
    return urls[0]
  }
  t.equal(await told(), undefined)
  const { renewAt } = (await currentOf(running, 'app.example.com'))!
  for (explanationURL of ['https://ca.test/why', 'https://ca.test/why-now'])
    t.equal(await told(), explanationURL, 'also where the window stays')
  t.ok(running.logged.some((line) => line.includes('"explanationUrl":"https://ca.test/why"')))
  explanationURL = undefined
  t.equal(await told(), undefined, 'and no longer than the CA says')
  t.equal((await currentOf(running, 'app.example.com'))!.renewAt, renewAt)

  explanationURL = 'https://ca.test/why'
  t.equal(await told(), explanationURL)
  await pass(running, 12 * DAY)
  explanationURL = undefined
  t.not((await currentOf(running, 'app.example.com'))!.renewAt, renewAt)
  t.equal(await told(), undefined, 'of a new certificate it is told anew')
})

t.test(
  'certificates that nobody fetches for two lifetimes are no longer renewed, until they are fetched',
  async (t) => {
    const running = await start(t)
    running.service.start()
    await running.call('POST', '/api/certificate', { domain: 'a.test' })
    await pass(running, 18 * DAY, DAY)
    const last = await currentOf(running)
    t.equal(last?.renewAt, null)
    const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
    t.match(body, { cached: true, serialNumber: last?.serialNumber })
    await pass(running, 4 * DAY, DAY)
    t.not((await currentOf(running))?.id, last?.id, 'it is renewed again')
    await pass(running, 30 * DAY, DAY)
    t.match(await running.call('GET', '/api/certificate/a.test'), { status: 404 })
  },
)

t.test('a 304 keeps a certificate in use', async (t) => {
  const running = await start(t)
  running.service.start()
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  for (let n = 0; n < 10; n += 1) {
    await pass(running, 3 * DAY, DAY)
    const etag = (await running.call('GET', '/api/certificate/a.test')).headers.etag
    const same = await running.call('GET', '/api/certificate/a.test', undefined, {
      'if-none-match': etag,
    })
    t.equal(same.status, 304)
  }
})
