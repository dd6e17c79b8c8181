import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import {
  type Authority,
  buildChainPem,
  createCross,
  createIntermediate,
  createRoot,
  placeBelow,
  toPem,
} from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { issue } from '../../../../packages/pki/test/helpers.ts'
import { until } from '../../../../scripts/test/until.ts'
import { canMoveClocks } from '../helpers/clock.ts'
import {
  AGENTS,
  type Gatehouse,
  type NamedServer,
  startGatehouse,
} from '../helpers/rollover/gatehouse.ts'
import { type Expectation, Load } from '../helpers/rollover/load.ts'
import {
  missingServer,
  type RenewedServer,
  startApp,
  startDatabase,
  startHaproxy,
  startNginx,
} from '../helpers/rollover/servers.ts'
import {
  missingClient,
  outcomeOf,
  startTlsClients,
  type TlsClient,
  type TlsFiles,
} from '../helpers/tls-clients/index.ts'

/** The root below which a certificate is; `either` while a server gets another one. */
type Root = 'A' | 'B'
type ServedRoot = Root | 'either'
type ClientPair = Required<Omit<TlsFiles, 'roots'>>

/** So many looks at a server have to agree, as a process from before its reload may still answer. */
const LOOKS = 20
const DAY = 86_400_000
const YEAR = 365 * DAY
/** Of a root, unless another one is asked for. */
const LIFETIME = 10 * YEAR

const skip = missingClient() || missingServer() || (!canMoveClocks && 'needs the package faketime')

t.test('a root rolls under load', { skip, timeout: 900_000 }, async (t) => {
  const gatehouse = await startGatehouse(t)
  const clients = await startTlsClients(t, gatehouse.folder, gatehouse.env)
  // It is the fastest.
  const probe = clients.find(({ name }) => name === 'Go') as TlsClient
  const { certs, fetch, roll, server: service, moveClock } = gatehouse

  /** Files of what clients trust, and of what they show. */
  const trust = new Map<string, string>([['A', await fetch('/ca/root.pem', 'a.pem')]])
  const pairs = new Map<Root, ClientPair>([['A', await getPair(gatehouse, AGENTS[0])]])
  const fetchAuthorities = async () => ({
    roots: await fetch('/ca/clients.pem', 'clients.pem'),
    lists: await fetch('/ca/clients.crl.pem', 'clients.crl.pem'),
  })
  const current = { ...(await fetchAuthorities()), name: 'the files of now' }
  const formerRoots = await fetch('/ca/clients.pem', 'former.pem')
  const authorities = [current, { ...current, roots: formerRoots, name: 'the roots of before' }]
  const proxies = [
    await startNginx(t, gatehouse, authorities),
    await startHaproxy(t, gatehouse, authorities),
  ]
  const refetch = async () => {
    await fetchAuthorities()
    for (const { reload } of proxies) await reload()
  }
  const verifiers = proxies.flatMap(({ verifiers }) => verifiers)
  const servers: readonly RenewedServer[] = [
    ...proxies,
    await startDatabase(t, gatehouse),
    await startApp(t, gatehouse),
  ]
  const servedRoots = new Map<NamedServer, ServedRoot>(
    [...servers, service].map((server) => [server, 'A']),
  )
  /** What client certificates come to, by the root above them. */
  const admission = new Map<Root, Expectation>([
    ['A', 'accepted'],
    ['B', 'accepted'],
  ])

  await using load = new Load(clients, 'before', () => [
    ...[...servedRoots.keys()].flatMap((server) =>
      [...trust].map(([roots, file]) => ({
        server,
        variant: `trusts ${roots}`,
        files: { roots: file },
        expect: () => expectationOf(roots, servedRoots.get(server) ?? 'either'),
      })),
    ),
    ...[...verifiers, { ...service, path: '/api/certificates' }].flatMap((server) =>
      [...pairs].map(([root, pair]) => ({
        server,
        variant: `shows a certificate of ${root}`,
        files: { roots: trust.get('A') ?? '', ...pair },
        expect: () => admission.get(root) ?? 'either',
      })),
    ),
  ])
  void gatehouse.ended.then((end) => load.faults.push(`cert-service ended: ${end}`))
  /** Has a server show a certificate of this root, and waits until it does. */
  const change = async (server: NamedServer, root: Root, act: () => Promise<unknown>) => {
    servedRoots.set(server, 'either')
    await act()
    // Whoever trusts B alone accepts a server with a certificate below B, and no other.
    const roots = trust.get('B') ?? ''
    await untilSettled(probe, server, { roots }, root === 'B' ? 'accepted' : 'refused')
    servedRoots.set(server, root)
  }
  const renewAll = async (root: Root) => {
    // Not those of clients, which would be renewed some time later, by the clock of then.
    await certs('renew', '--issuer', 'ca')
    for (const server of servers)
      await change(server, root, async () => {
        await certs('renew', server.host).catch(allowing(/CERT_RENEW_TOO_SOON/))
        await server.update()
      })
  }
  /** Gets another client certificate below B, before the first one ends. */
  const updatePair = async () => {
    admission.set('B', 'either')
    pairs.set('B', await getPair(gatehouse, AGENTS[2]))
    admission.set('B', 'accepted')
  }
  /** Sets the clock ahead. Servers fetch their files again, as they do each day: lists end after a week. */
  const passTime = async (days: number, formerOutcome: Expectation) => {
    for (const root of pairs.keys()) admission.set(root, 'either')
    moveClock(days)
    await load.passRound()
    await refetch()
    for (const server of verifiers)
      for (const [root, pair] of pairs) {
        const files = { roots: trust.get('A') ?? '', ...pair }
        const outcome = root === 'A' && formerOutcome === 'refused' ? 'refused' : 'accepted'
        await untilSettled(probe, server, files, outcome)
      }
    admission.set('A', formerOutcome)
    admission.set('B', 'accepted')
  }

  await load.passRound()

  await roll('begin')
  load.enter('begun')
  const bothRoots = await fetch('/ca/root.pem', 'both.pem')
  trust.set('A and B', bothRoots)
  trust.set('B', writeWithout(bothRoots, trust.get('A') ?? '', join(gatehouse.folder, 'b.pem')))
  await refetch()
  await load.passRound()

  await t.rejects(roll('use'), { message: /CERT_ROLL_REFUSED/ }, 'B signs after some weeks')
  load.enter('B signs')
  await change(service, 'B', () => roll('use', '--force'))
  pairs.set('B', await getPair(gatehouse, AGENTS[1]))
  await load.passRound()
  load.enter('renewed below B')
  await renewAll('B')
  await load.passRound()

  load.enter('A signs again')
  await change(service, 'A', () => roll('back'))
  await load.passRound()
  load.enter('renewed below A')
  await renewAll('A')
  await load.passRound()

  load.enter('five weeks later')
  await passTime(35, 'accepted')
  await load.passRound()
  load.enter('B signs again')
  await change(service, 'B', () => roll('use'))
  await renewAll('B')
  await updatePair()
  await load.passRound()

  await t.rejects(
    roll('finish'),
    { message: /CERT_ROLL_REFUSED/ },
    'what A has signed has not ended',
  )
  load.enter('all that A has signed has ended')
  await passTime(66, 'refused')
  await load.passRound()
  await t.rejects(roll('finish'), { message: /lack the new root/ }, 'its own client trusts A alone')
  copyFileSync(bothRoots, gatehouse.roots)
  await roll('status')
  load.enter('finished')
  await roll('finish')
  await refetch()
  await load.passRound()

  await load[Symbol.asyncDispose]()
  t.strictSame(load.faults, [], 'no connection failed')
  const isBegun = ({ stage, server }: { stage: string; server: string }) =>
    stage === 'begun' && [...servers, service].some(({ name }) => name === server)
  for (const { client, server, refused } of load.counts.filter(isBegun))
    t.ok(refused > 0, `${client}, which trusts B alone, does not accept ${server} below A`)
  const finalRoots = await fetch('/ca/root.pem', 'last.pem')
  t.equal(readFileSync(finalRoots, 'utf8'), readFileSync(trust.get('B') ?? '', 'utf8'))
  for (const line of load.table()) t.comment(line)
})

t.test('the chain serves on when the old root has ended', { skip }, async (t) => {
  const folder = testFolder(t)
  const now = Date.now()
  const oldRoot = await createRoot({ commonName: 'Old Root', now: now - LIFETIME - DAY })
  const newRoot = await createRoot({ commonName: 'New Root', now: now - YEAR })
  const cross = createCross({ signer: oldRoot, root: newRoot, now: now - YEAR })
  const intermediate = await createIntermediate({ root: newRoot, commonName: 'Intermediate', now })
  const { certificate, chain } = placeBelow(newRoot, intermediate, [cross])
  t.strictSame(chain, [certificate, cross])
  const host = 'app.test'
  const { der, key } = issue(intermediate, [host], { now })
  const server = createServer(
    { cert: buildChainPem(der, chain), key: toPem('PRIVATE KEY', key.pkcs8) },
    (_request, response) => void response.end(),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  const pemOf = ({ certificate }: Authority) => toPem('CERTIFICATE', certificate)
  const anchors = {
    'the old root': [pemOf(oldRoot), 'refused'],
    'the new root': [pemOf(newRoot), 'accepted'],
    both: [pemOf(oldRoot) + pemOf(newRoot), 'accepted'],
  } as const
  for (const client of await startTlsClients(t, folder))
    for (const [index, [what, [pem, outcome]]] of Object.entries(anchors).entries()) {
      const roots = join(folder, `${index}.pem`)
      writeFileSync(roots, pem)
      const answer = await client.ask({ host, port, protocol: 'https' }, { roots })
      t.equal(outcomeOf(answer), outcome, `${client.name}, which trusts ${what}: ${answer}`)
    }
})

/** What a client that trusts these roots must come to at a server that shows a certificate below this root. */
function expectationOf(roots: string, servedRoot: ServedRoot): Expectation {
  if (roots !== 'B' || servedRoot === 'B') return 'accepted'
  return servedRoot === 'A' ? 'refused' : 'either'
}

/** Gets a client certificate, in files. */
async function getPair({ get }: Gatehouse, name: string): Promise<ClientPair> {
  const folder = await get(name, ['--profile', 'client'])
  return { certificate: join(folder, 'fullchain.pem'), key: join(folder, 'privkey.pem') }
}

/** The service renews by itself what is due, and may have been faster. */
const allowing = (message: RegExp) => (error: Error) => {
  if (!message.test(error.message)) throw error
}

/** Writes the roots of a bundle that are not in another file. */
function writeWithout(bundle: string, other: string, file: string): string {
  const roots = readFileSync(bundle, 'utf8').split(/(?<=-----END CERTIFICATE-----\n)/)
  const without = roots.filter((root) => root.trim() !== readFileSync(other, 'utf8').trim())
  writeFileSync(file, without.join(''))
  return file
}

/** Waits until a server does the same to a client again and again. */
async function untilSettled(
  client: TlsClient,
  server: NamedServer,
  files: TlsFiles,
  outcome: 'accepted' | 'refused',
): Promise<void> {
  let looks = 0
  await until(async () => {
    looks = outcomeOf(await client.ask(server, files)) === outcome ? looks + 1 : 0
    return looks === LOOKS
  })
}
