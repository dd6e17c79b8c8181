import { execFile } from 'node:child_process'
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { bundleToShip } from '../bundle.ts'
import { inventory, SBOM } from './inventory.ts'

const ROOT = join(import.meta.dirname, '../..')
const PNPM = join(ROOT, 'scripts/pnpm/node_modules/.bin/pnpm')
const run = promisify(execFile)

/** What npm gets, in this order: each needs only those before it. The other packages are only in the services. */
export const LIBRARIES = ['net', 'profile', 'auth-core'] as const
export const SERVICES = ['cert-service', 'forward-auth'] as const

interface Manifest {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly license: string
  readonly engines: object
  readonly bin?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

/**
 * Makes the npm package of a service in `out`, and its list of packages beside it. The package is the bundle,
 * which depends on nothing.
 */
export async function packService(
  service: (typeof SERVICES)[number],
  out: string,
  source: string,
): Promise<string> {
  const from = join(ROOT, 'services', service)
  return inFolder(async (folder) => {
    await bundleToShip(folder, service)
    await copyFile(join(from, 'README.md'), join(folder, 'README.md'))
    await chmod(join(folder, 'main.js'), 0o755)
    const manifest = await manifestIn(from)
    const { name, version, description, keywords, license, engines, bin = {} } = manifest
    await copyFile(join(folder, SBOM), join(out, `gatehouse-${service}-${version}.cdx.json`))
    const [command = ''] = Object.keys(bin)
    return pack(folder, out, {
      ...{ name, version, description, keywords, license, engines, type: 'commonjs' },
      bin: { [command]: 'main.js' },
      ...published(source, `services/${service}`),
    })
  })
}

/** Makes the npm package of a library in `out`. */
export async function packLibrary(
  library: (typeof LIBRARIES)[number],
  out: string,
  source: string,
): Promise<string> {
  const from = join(ROOT, 'packages', library)
  await rm(join(from, 'dist'), { recursive: true, force: true })
  return inFolder(async (folder) => {
    // pnpm puts the versions of the workspace in, and the exports as they are published.
    await run(PNPM, ['pack', '--out', join(folder, 'whole.tgz')], { cwd: from })
    await run('tar', ['-xzf', 'whole.tgz'], { cwd: folder })
    const staged = join(folder, 'package')
    const { scripts: _, devDependencies: __, ...manifest } = await manifestIn(staged)
    const more = published(source, `packages/${library}`)
    return pack(staged, out, { ...manifest, ...more })
  })
}

/** Writes the list of the packages that a library loads, in the versions that it was tested with. */
export async function listLibrary(library: (typeof LIBRARIES)[number], out: string): Promise<void> {
  const from = join(ROOT, 'packages', library)
  await inFolder(async (folder) => {
    await build({
      entryPoints: [join(from, 'src/index.ts')],
      ...{ bundle: true, platform: 'node', format: 'esm', conditions: ['@gatehouse/source'] },
      ...{ absWorkingDir: from, outdir: folder, logLevel: 'warning' },
      // Apps bring it.
      external: ['fastify'],
      plugins: inventory(folder),
    })
    const { version } = await manifestIn(from)
    await copyFile(join(folder, SBOM), join(out, `gatehouse-${library}-${version}.cdx.json`))
  })
}

async function manifestIn(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
}

/** Provenance names the repository, and npm refuses one that says another. */
const published = (source: string, directory: string) => ({
  homepage: `${source}#readme`,
  bugs: { url: `${source}/issues` },
  repository: { type: 'git', url: `git+${source}.git`, directory },
  publishConfig: { access: 'public', provenance: true },
})

async function pack(folder: string, out: string, manifest: Manifest): Promise<string> {
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', out, folder]
  await run('npm', args, { cwd: out })
  return join(out, `${manifest.name.slice(1).replace('/', '-')}-${manifest.version}.tgz`)
}

async function inFolder<T>(act: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-release-'))
  try {
    return await act(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
