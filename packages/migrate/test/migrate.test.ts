import { readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { migrate } from '../src/migrate.ts'

t.test('a file without a setting of the program is refused', async (t) => {
  const file = join(testFolder(t), 'theirs')
  writeFileSync(file, 'key = "x"\nother = 1\n')
  await t.rejects(
    migrate('oauth2-proxy', file, async () => {}),
    { code: 'CONFIG_NOT_THEIRS', message: `${file}:1 has no setting of oauth2-proxy` },
  )
})

t.test('the draft that is tried out leaves nothing behind, valid or not', async (t) => {
  const folder = testFolder(t, { tmp: {} })
  const file = join(folder, 'theirs')
  writeFileSync(file, 'provider = "oidc"\n')
  const { TMPDIR } = process.env
  process.env.TMPDIR = join(folder, 'tmp')
  t.teardown(() => {
    delete process.env.TMPDIR
    Object.assign(process.env, TMPDIR !== undefined && { TMPDIR })
  })
  const seen: number[] = []
  const outcomes = [
    undefined,
    new ConfigError('CONFIG_INVALID', 'no', { faults: [] }),
    new Error('broken'),
  ]
  for (const outcome of outcomes) {
    const load = async () => {
      seen.push(readdirSync(tmpdir()).length)
      if (outcome) throw outcome
    }
    await migrate('oauth2-proxy', file, load).catch((error) => t.equal(error, outcome))
    t.strictSame(readdirSync(tmpdir()), [])
  }
  t.strictSame(seen, [1, 1, 1], 'it is there while it is read')
})
