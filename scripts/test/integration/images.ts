import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'
import { imageArguments } from '../../release/image.ts'
import { readProjectFile } from '../compose-files.ts'
import { ROOT } from '../markdown.ts'
import type { Docker } from './docker.ts'

const IMAGES = ['cert-service', 'forward-auth', 'demo']
const COMMANDS = { 'cert-service': 'gatehouse-certs', 'forward-auth': 'gatehouse-auth' } as const
const MAX_IMAGE = 250e6
const SOURCE = 'https://github.com/example/gatehouse'
const BASE = 'node:24-bookworm-slim'
const DIGEST = `sha256:${'0a'.repeat(32)}`
const { version } = JSON.parse(readProjectFile('package.json'))

/** Builds the images as the release does, and looks at what is in them. */
export async function holdImages(t: Test, { docker }: Docker): Promise<void> {
  const revision = execFileSync('git', ['rev-parse', 'HEAD'], {
    cwd: ROOT,
    encoding: 'utf8',
  }).trim()
  const nameOf = (target: string) => `gatehouse-release/${target}:${version}`
  t.teardown(() => docker('image', 'rm', ...IMAGES.map(nameOf)))
  for (const target of IMAGES) {
    const base = `${BASE}@${DIGEST}`
    const args = imageArguments({ target, version, revision, source: SOURCE, base })
    // Nothing can be pulled here, and an image that was made here has no digest.
    const local = args.map((word) => (word === `BASE=${base}` ? `BASE=${BASE}` : word))
    await docker('build', '--tag', nameOf(target), ...local, ROOT)
  }

  await t.test('images are small, without root, and say what they are', async (t) => {
    for (const target of IMAGES) {
      const [image] = JSON.parse(await docker('image', 'inspect', nameOf(target)))
      t.ok(image.Size < MAX_IMAGE, `${target} has ${Math.round(image.Size / 1e6)} MB`)
      t.equal(image.Config.User, '1000:1000')
      const { 'org.opencontainers.image.description': description, ...labels } = image.Config.Labels
      t.ok(description)
      t.strictSame(
        labels,
        Object.fromEntries(
          Object.entries({
            title: `Gatehouse ${target}`,
            version,
            revision,
            source: SOURCE,
            licenses: 'MIT',
            documentation: `${SOURCE}/blob/v${version}/docs/install.md`,
            'base.name': BASE,
            'base.digest': DIGEST,
          }).map(([key, value]) => [`org.opencontainers.image.${key}`, value]),
        ),
      )
    }
  })

  await t.test('a service cannot change its own program', async (t) => {
    const list = `const { readdirSync, statSync } = require('node:fs')
      console.log(JSON.stringify(readdirSync('/opt/gatehouse', { recursive: true }).map((file) => {
        const { uid, gid, mode } = statSync('/opt/gatehouse/' + file)
        return [file, uid, gid, mode & 0o022]
      })))`
    for (const target of IMAGES) {
      const run = ['run', '--rm', '--entrypoint', 'node', nameOf(target), '-e', list]
      const files: [string, number, number, number][] = JSON.parse(await docker(...run))
      t.ok(files.length > 3, target)
      t.same(
        files.filter(([, uid, gid, writable]) => uid !== 0 || gid !== 0 || writable !== 0),
        [],
        target,
      )
      for (const file of ['LICENSE', 'THIRD-PARTY-LICENSES.txt', 'sbom.cdx.json'])
        t.ok(
          files.some(([name]) => name.endsWith(file)),
          `${target} has ${file}`,
        )
    }
  })

  await t.test('a service says which version it is', async (t) => {
    for (const [target, command] of Object.entries(COMMANDS))
      t.equal(await docker('run', '--rm', nameOf(target), '--version'), `${command} ${version}\n`)
  })
}
