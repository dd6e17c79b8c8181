// Prints the arguments for `docker build` that make an image of a release, one in a line.
//   BASE=node:24-bookworm-slim@sha256:… REVISION=… SOURCE=https://github.com/owner/name \
//     node --conditions=@gatehouse/source scripts/release/image.ts cert-service
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface ImageOptions {
  /** A stage of the Dockerfile. */
  readonly target: string
  readonly version: string
  /** The commit. */
  readonly revision: string
  /** Where the repository is on the web. */
  readonly source: string
  /** The image that it is made from, by name, tag and digest. */
  readonly base: string
}

/** Throws if the base image has no digest: what is built must be known before it is built. */
export function imageArguments(options: ImageOptions): string[] {
  const { target, version, revision, source, base } = options
  const [, name, digest] = /^([^\s@]+:[^\s@:]+)@(sha256:[0-9a-f]{64})$/.exec(base) ?? []
  if (!name || !digest)
    throw new Error(`The base image has to be name:tag@sha256:…, and this is "${base}".`)
  const label = (key: string, value: string) => [
    '--label',
    `org.opencontainers.image.${key}=${value}`,
  ]
  return [
    ...['--target', target],
    ...['--build-arg', `BASE=${base}`],
    ...['--build-arg', `VERSION=${version}`],
    ...['--build-arg', `REVISION=${revision}`],
    ...['--build-arg', `SOURCE=${source}`],
    ...label('base.name', name),
    ...label('base.digest', digest),
    ...label('documentation', `${source}/blob/v${version}/docs/install.md`),
  ]
}

if (import.meta.main) {
  const { BASE: base = '', REVISION: revision = '', SOURCE: source = '' } = process.env
  const [target = ''] = process.argv.slice(2)
  const manifest = join(import.meta.dirname, '../../package.json')
  const { version } = JSON.parse(readFileSync(manifest, 'utf8'))
  for (const argument of imageArguments({ target, version, revision, source, base }))
    console.log(argument)
}
