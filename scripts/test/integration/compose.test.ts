import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  admin,
  COMPOSE,
  cookiesOf,
  FORGED,
  holdSignIns,
  NETWORK,
  PROJECT,
  port,
  startDemo,
  waitUntilReady,
} from './demo.ts'
import { type ComposeProxy, type Docker, findDocker } from './docker.ts'
import { HOMELAB, holdBehindTraefik, holdCaddyInContainer, holdHomelab } from './homelab.ts'
import { holdImages } from './images.ts'
import { holdReplicas, REPLICAS } from './replicas.ts'

const DEMO: Readonly<Record<ComposeProxy, readonly string[]>> = {
  traefik: ['docker-compose.yml'],
  caddy: ['docker-compose.yml', 'compose.caddy.yml'],
}
const COMBINATIONS = [...Object.values(DEMO), [REPLICAS], ['compose.production.yml'], [HOMELAB]]
const SERVICES = ['proxy', 'forward-auth', 'cert-service', 'demo-idp', 'app', 'admin']

t.test('docker compose up', async (t) => {
  const found = await findDocker(t, COMPOSE)
  if (typeof found === 'string') {
    t.pass(found, { skip: found })
    return
  }
  const [first = 'caddy', ...others] = found.proxies
  await found.compose(DEMO[first], 'build')
  await t.test('the images of a release', (t) => holdImages(t, found))
  await t.test(`behind ${first}`, (t) => holdCompose(t, found, DEMO[first]))
  for (const proxy of others)
    await t.test(`behind ${proxy}`, async (t) => {
      const { ask, openContext } = await startDemo(t, found, DEMO[proxy])
      await holdSignIns(t, ask, await openContext(), await openContext())
    })
  await t.test('Caddy in a container', (t) => holdCaddyInContainer(t, found))
  if (!found.proxies.includes('traefik')) {
    t.pass('replicas and a homelab', { skip: 'there is no Traefik here' })
    return
  }
  await t.test('three replicas of each service', (t) => holdReplicas(t, found))
  await t.test('a homelab', (t) => holdHomelab(t, found))
  await t.test('a Traefik that is there already', (t) => holdBehindTraefik(t, found))
})

async function holdCompose(t: Test, found: Docker, files: readonly string[]): Promise<void> {
  const { docker, compose: composeWith } = found
  const { compose, root, ask, openContext } = await startDemo(t, found, files)
  const readyWith = (degraded: readonly string[]) => waitUntilReady(ask, degraded)
  const [alice, bob] = [await openContext(), await openContext()]

  await holdSignIns(t, ask, alice, bob)
  const cookie = await cookiesOf(alice, admin)

  await t.test('checks that are not asked by the proxy', async (t) => {
    const headers = { ...FORGED, 'x-forwarded-host': admin, cookie }
    const id = (await compose('ps', '-q', 'forward-auth')).trim()
    const format = `{{(index .NetworkSettings.Networks "${PROJECT}_front").IPAddress}}`
    const address = (await docker('inspect', '--format', format, id)).trim()
    const fromHost = await fetch(`http://${address}:4181/portals/main`, { headers })
    const refusal = { status: 403, code: 'FWA_PEER_UNTRUSTED' }
    t.match({ status: fromHost.status, ...((await fromHost.json()) as object) }, refusal, 'host')

    const program = `fetch('http://forward-auth:4181/portals/main', ${JSON.stringify({ headers })})
      .then(async (answer) => ({ status: answer.status, ...(await answer.json()) }))
      .catch(({ cause }) => cause)
      .then((told) => console.log(JSON.stringify(told)))`
    const runIn = async (network: string) =>
      JSON.parse(
        await docker(
          'run',
          '--rm',
          '--network',
          `${PROJECT}_${network}`,
          'gatehouse/demo',
          '-e',
          program,
        ),
      )
    t.match(await runIn('front'), refusal, 'another container')
    t.match(await runIn('apps'), { code: /ENOTFOUND|EAI_AGAIN/ }, 'where the apps are')
  })

  const holdSignedIn = async (t: Test) => {
    const { status, body } = await ask({ host: admin, headers: { cookie } })
    t.match({ status, body }, { status: 200, body: /<dt>x-forwarded-user<\/dt><dd>alice<\/dd>/ })
  }

  await t.test('without the identity provider', async (t) => {
    await compose('stop', 'demo-idp')
    await compose('restart', 'forward-auth')
    await readyWith(['provider'])
    await holdSignedIn(t)
    await compose('start', 'demo-idp')
    await readyWith([])
  })

  await t.test('everything restarted', async (t) => {
    await compose('restart')
    await readyWith([])
    await holdSignedIn(t)
  })

  await t.test('everything stopped, taken away and made anew', async (t) => {
    await compose('stop')
    for (const service of SERVICES) {
      const id = (await compose('ps', '--all', '--quiet', service)).trim()
      const state = JSON.parse(await docker('inspect', '--format', '{{json .State}}', id))
      t.match(state, { Status: 'exited', ExitCode: 0 }, `${service} has ended by itself`)
    }
    await compose('down')
    await compose('up', '--detach')
    await readyWith([])
    await holdSignedIn(t)
    const kept = await ask({ host: `certs.gatehouse.localhost:${port}`, path: '/ca/root.pem' })
    t.equal(new X509Certificate(kept.body).fingerprint256, new X509Certificate(root).fingerprint256)
  })

  await t.test('the configuration of production is without a fault', async (t) => {
    for (const files of COMBINATIONS)
      t.equal(await composeWith(files, 'config', '--quiet'), '', files.join(' and '))
    const names = ['operator-key', 'proxy-key', 'session-key', 'client-secret']
    const secrets = t.testdir(Object.fromEntries(names.map((name) => [name, name.repeat(4)])))
    const folder = join(import.meta.dirname, '../../../docker/production')
    const mounts = ['-v', `${folder}:/etc/gatehouse:ro`, '-v', `${secrets}:/run/secrets:ro`]
    for (const name of ['cert-service', 'forward-auth']) {
      const config = `/etc/gatehouse/${name}.yaml`
      const args = ['-e', `GATEHOUSE_PROXY=${NETWORK}.2`, ...mounts, `gatehouse/${name}`]
      const said = await docker('run', '--rm', ...args, 'check-config', '--config', config)
      t.ok(said.startsWith(`${config} is valid\n`), said)
    }
  })

  await t.test('a folder that belongs to somebody else is one clear line', async (t) => {
    const folder = t.testdir({})
    writeFileSync(join(folder, 'config.yaml'), SOMEBODY_ELSES, { mode: 0o644 })
    const data = '/var/lib/gatehouse/data'
    const mounts = ['--tmpfs', `${data}:mode=0755`, '--volume', `${folder}:/etc/gatehouse:ro`]
    const config = '/etc/gatehouse/config.yaml'
    const args = ['--rm', ...mounts, 'gatehouse/cert-service', 'serve', '--config', config]
    await t.rejects(docker('run', ...args), {
      code: 1,
      stderr:
        /\/storage\/path needs a folder that this user may write to: \/var\/lib\/gatehouse\/data [^\n]*\n/,
    })
  })
}

const SOMEBODY_ELSES = `
storage: { path: /var/lib/gatehouse/data, masterKeyFile: /var/lib/gatehouse/keys/master.key }
auth: { psk: { key: guards-nothing-at-all } }
`
