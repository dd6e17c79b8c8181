import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { MIGRATIONS as CERT_MIGRATIONS } from '../../packages/cert-store/src/schema/tables.ts'
import { stepsOf } from '../../packages/store/src/migrations.ts'
import { MIGRATIONS as AUTH_MIGRATIONS } from '../../services/forward-auth/src/store/tables.ts'
import { imageArguments } from '../release/image.ts'
import { releaseNotes, sectionsOf } from '../release/notes.ts'
import { LIBRARIES, SERVICES } from '../release/npm.ts'
import { faultsOf, setVersion } from '../release/version.ts'
import { ROOT } from './markdown.ts'

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const SOURCE = 'https://github.com/example/gatehouse'
const BASE = `node:24-bookworm-slim@sha256:${'0a'.repeat(32)}`

/** A copy of the files that hold the version. */
function copyOfFiles(t: Test): string {
  const folder = t.testdir()
  const files = globSync(
    [
      '{package,{packages,services,examples}/*/package}.json',
      'services/*/src/version.ts',
      'deploy/helm/*/Chart.yaml',
      'Dockerfile',
      'CHANGELOG.md',
    ],
    { cwd: ROOT, exclude: ['**/node_modules/**'] },
  )
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(join(ROOT, file), join(folder, file))
  }
  return folder
}

t.test('everything has the same version', async (t) => {
  t.strictSame(
    faultsOf(`v${version}`).filter((fault) => !fault.startsWith('CHANGELOG.md')),
    [],
  )
  const files = faultsOf('v9.9.9').map((fault) => fault.split(' ')[0])
  for (const file of [
    'package.json',
    'packages/net/package.json',
    'services/cert-service/package.json',
    'services/cert-service/src/version.ts',
    'services/forward-auth/src/version.ts',
    'examples/apps/package.json',
    'Dockerfile',
    'CHANGELOG.md',
  ])
    t.ok(files.includes(file), `${file} is compared`)
})

t.test('a version is set everywhere, and is then ready to be tagged', async (t) => {
  const folder = copyOfFiles(t)
  setVersion('7.8.9-rc.1', '2030-01-02', folder)
  t.strictSame(faultsOf('v7.8.9-rc.1', folder), [])
  const changelog = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8')
  t.match(changelog, '## Unreleased\n\n## 7.8.9-rc.1 (2030-01-02)\n\n### ')
  t.throws(() => setVersion('next', '2030-01-02', folder), /next is no version/)
})

t.test('what disagrees is named, with what to do', async (t) => {
  const folder = copyOfFiles(t)
  setVersion('7.8.9', '2030-01-02', folder)
  const change = (file: string, from: string, to: string) => {
    const before =
      readFileSync(join(ROOT, file), 'utf8') && readFileSync(join(folder, file), 'utf8')
    writeFileSync(join(folder, file), before.replace(from, to))
    const faults = faultsOf('v7.8.9', folder)
    writeFileSync(join(folder, file), before)
    return faults
  }
  for (const file of [
    'packages/pki/package.json',
    'Dockerfile',
    'services/forward-auth/src/version.ts',
  ])
    t.strictSame(change(file, '7.8.9', '7.8.8'), [
      `${file} has version 7.8.8, not 7.8.9: scripts/release/version.ts set 7.8.9 writes it.`,
    ])
  t.match(change('CHANGELOG.md', '## 7.8.9 ', '## 7.8.8 '), [/no section "## 7\.8\.9 \(date\)"/])
  t.match(change('CHANGELOG.md', '## Unreleased\n', '## Unreleased\n\n- new\n'), [
    /has entries under "Unreleased": move them to "7\.8\.9"/,
  ])
  for (const tag of ['7.8.9', 'v7.8', 'vnext', 'v7.8.9; rm -rf'])
    t.match(faultsOf(tag, folder), [/is no version: it should look like v1\.2\.3/], tag)
})

t.test('notes are the section of the changelog, with links that work anywhere', async (t) => {
  const changelog = `# Changelog

## Unreleased

## 0.2.0 (2030-01-02)

- [guide](docs/a.md#b), [page](https://example.com/x), [below](#fixed)

## 0.1.0

- old
`
  t.strictSame(
    sectionsOf(changelog).map(({ name }) => name),
    ['Unreleased', '0.2.0', '0.1.0'],
  )
  const images = [`ghcr.io/example/gatehouse/cert-service:0.2.0@sha256:${'1'.repeat(64)}`]
  const release = { version: '0.2.0', source: SOURCE, base: BASE, images }
  t.equal(
    releaseNotes(changelog, release),
    `- [guide](${SOURCE}/blob/v0.2.0/docs/a.md#b), [page](https://example.com/x), [below](#fixed)

### Images

- \`${images[0]}\`

Made from \`${BASE}\`. [How to install and verify](${SOURCE}/blob/v0.2.0/docs/install.md).
`,
  )
  for (const missing of ['0.3.0', 'Unreleased'])
    t.throws(() => releaseNotes(changelog, { ...release, version: missing }), {
      message: `CHANGELOG.md says nothing of ${missing}: it needs entries below "## ${missing} (date)".`,
    })
})

t.test('an image is made from a base image with a digest only', async (t) => {
  const options = { target: 'demo', version, revision: 'abc', source: SOURCE }
  for (const base of ['', 'node:24', `node@sha256:${'0'.repeat(64)}`, 'node:24@sha256:12'])
    t.throws(() => imageArguments({ ...options, base }), /has to be name:tag@sha256/, base)
  const args = imageArguments({ ...options, base: BASE })
  t.ok(args.includes(`BASE=${BASE}`))
  t.ok(args.includes(`org.opencontainers.image.base.digest=${BASE.split('@')[1]}`))
})

t.test('the workflows', async (t) => {
  const workflows = globSync('.github/workflows/*.yml', { cwd: ROOT }).map((file) => ({
    file,
    text: readFileSync(join(ROOT, file), 'utf8'),
  }))
  t.test('pin what they use by commit, and have no right that no step needs', async (t) => {
    for (const { file, text } of workflows) {
      const { permissions, jobs } = parse(text)
      t.strictSame(permissions, {}, file)
      for (const [name, job] of Object.entries<Job>(jobs)) {
        t.ok(job.permissions, `${file}: ${name}`)
        for (const { uses } of [job, ...(job.steps ?? [])])
          if (uses)
            t.match(uses, /^(\.\/\.github\/workflows\/|[\w-]+\/[\w-]+(\/[\w-]+)?@[0-9a-f]{40}$)/)
        const { container = [], services = {} } = job
        for (const one of [container, ...Object.values(services)].flat())
          t.match(
            typeof one === 'string' ? one : one.image,
            /^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/,
            `${file}: ${name}`,
          )
        // GitHub's own environment publishes its Pages.
        const isPublishing = ['contents', 'packages', 'id-token', 'attestations'].some(
          (right) => job.permissions[right] === 'write' && job.permissions.pages !== 'write',
        )
        t.equal(job.environment === 'release', isPublishing, `${file}: ${name} is approved`)
      }
    }
    const { jobs } = parse(readFileSync(join(ROOT, '.github/workflows/release.yml'), 'utf8'))
    const rights = Object.entries<Job>(jobs).map(([name, { permissions }]) => [
      name,
      Object.keys(permissions).filter((right) => permissions[right] === 'write'),
    ])
    t.strictSame(Object.fromEntries(rights), {
      check: [],
      test: [],
      files: [],
      images: ['packages'],
      manifests: ['packages', 'id-token', 'attestations'],
      npm: ['id-token'],
      github: ['contents', 'id-token', 'attestations'],
    })
  })

  t.test('publish each package after those that it needs, and each image', async (t) => {
    const text = readFileSync(join(ROOT, '.github/workflows/release.yml'), 'utf8')
    t.match(text, `for name in ${[...LIBRARIES, ...SERVICES].join(' ')}; do`)
    const { jobs } = parse(text)
    const { matrix } = jobs.images.strategy
    t.strictSame(matrix.architecture, ['amd64', 'arm64'])
    t.match(text, `for target in ${matrix.target.join(' ')}; do`)
    const attested = (jobs.manifests as Job).steps?.filter(({ uses = '' }) =>
      uses.includes('/attest-'),
    )
    t.strictSame(
      attested?.map((step) => step.with),
      matrix.target.map((target: string) => ({
        'subject-name': `$\{{ env.REGISTRY }}/${target}`,
        'subject-digest': `$\{{ steps.digests.outputs.${target} }}`,
        'push-to-registry': true,
      })),
    )
    const stages = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').matchAll(
      /^LABEL .*title="Gatehouse ([^"]+)"/gm,
    )
    t.strictSame(
      Array.from(stages, ([, stage]) => stage),
      matrix.target,
    )
    for (const name of ['images', 'manifests', 'npm', 'github'])
      t.ok(
        ['test', 'images', 'manifests'].some((before) => jobs[name].needs.includes(before)),
        name,
      )
  })
})

/** The digests of the migrations that were released, by store and engine. They stay; at a release, new ones are added. */
const RELEASED: Readonly<Record<string, readonly string[]>> = {}

t.test('a migration that was released stays as it was', async (t) => {
  const changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')
  const isReleased = sectionsOf(changelog).some(({ name }) => name !== 'Unreleased')
  for (const [store, migrations] of Object.entries({
    cert: CERT_MIGRATIONS,
    auth: AUTH_MIGRATIONS,
  }))
    for (const dialect of ['sqlite', 'postgres'] as const) {
      const released = RELEASED[`${store} ${dialect}`] ?? []
      const digests = stepsOf(migrations, dialect).map(({ digest }) => digest)
      t.strictSame(digests.slice(0, released.length), released, `${store} in ${dialect}`)
      t.equal(released.length > 0, isReleased, 'written down at the first release')
      if (!isReleased) t.equal(digests.length, 1, 'and one until then')
    }
})

type Image = string | { readonly image: string }

interface Job {
  readonly uses?: string
  readonly container?: Image
  readonly services?: Readonly<Record<string, Image>>
  readonly environment?: unknown
  readonly permissions: Readonly<Record<string, string>>
  readonly steps?: readonly { readonly uses?: string; readonly with?: object }[]
}
