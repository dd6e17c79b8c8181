import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { freePort } from '../../../../scripts/free-ports.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'
import { checkAt, startPeople } from '../helpers/provider-session.ts'

// Each mistake is one that people make on their first evening. Once the file is right, the next sign-in succeeds.
expectWarnings(t, 'FWA_', 'provider cannot be used', 'request failed', 'check refused')

const people = await startPeople(t)
const { clientSecret } = people.options
const REST = `server: { port: 0 }
metrics: { enabled: false }
log: { format: json }
storage: { path: data }`
const RIGHT = people
  .configOf('', REST)
  .replace(JSON.stringify({ clientSecret }).slice(1, -1), '"clientSecretFile":"client.secret"')
const closed = `http://127.0.0.1:${await freePort()}`

interface Mistake {
  readonly title: string
  /** The configuration, or the secret of the client. */
  readonly config?: string
  readonly secret?: string
  /** What the log says of the sign-in that fails, where this service notices. */
  readonly said?: RegExp
}

const MISTAKES: readonly Mistake[] = [
  {
    title: 'the secret of another client',
    secret: 'of-another-client',
    said: /nobody can sign in at corp: Compare `clientId` and `clientSecret`/,
  },
  {
    title: 'the ID of another client',
    config: RIGHT.replace('"clientId":"gatehouse"', '"clientId":"gate-house"'),
    // The page of the provider says it.
  },
  {
    title: 'an issuer at another port',
    config: RIGHT.replaceAll(people.issuer, closed),
    said: /corp cannot be reached: .*nothing listens there/,
  },
  {
    title: 'an issuer at another path',
    config: RIGHT.replaceAll(people.issuer, `${people.issuer}/realms/home`),
    said: /corp sent an invalid response: .* responded with status 404/,
  },
  {
    title: 'a condition that nobody fulfils',
    config: RIGHT.replace('{ name: main,', '{ name: main, allow: Group("staf"),'),
  },
  {
    title: 'another host for the pages',
    config: RIGHT.replace('authHost: auth.example.com', 'authHost: login.example.com'),
  },
]

for (const { title, config = RIGHT, secret = clientSecret, said: told } of MISTAKES)
  t.test(title, async (t) => {
    const folder = testFolder(t)
    const file = join(folder, 'config.yaml')
    const secretFile = join(folder, 'client.secret')
    writeFileSync(file, config)
    writeFileSync(secretFile, secret, { mode: 0o600 })
    const args = [...programOf('forward-auth'), 'serve', '--config', file]
    const { child, said, lines } = startRunning(t, args)
    const url = String((await said('ready')).url)
    const passes = async () => {
      const person = await people.signIn(url)
      return (await checkAt(url, person)).status === 200
    }
    t.notOk(await passes().catch(() => false))
    if (told) t.match(lines.map((line) => JSON.stringify(line)).join('\n'), told)

    writeFileSync(secretFile, clientSecret)
    writeFileSync(file, RIGHT)
    const start = Date.now()
    if (config !== RIGHT) child.kill('SIGHUP')
    await until(() => passes().catch(() => false))
    t.comment(`signed in ${Date.now() - start} ms after the repair`)
  })
