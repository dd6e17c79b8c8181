// Prints the notes of a release on GitHub.
//   BASE=… SOURCE=… node --conditions=@gatehouse/source scripts/release/notes.ts 0.2.0 <image with digest>…
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Section {
  /** `Unreleased` or a version. */
  readonly name: string
  readonly text: string
}

export interface Release {
  readonly version: string
  /** Where the repository is on the web. */
  readonly source: string
  /** The image that all images are made from, with its digest. */
  readonly base: string
  /** The images, with digests. */
  readonly images: readonly string[]
}

/** The sections of a changelog, newest first. */
export function sectionsOf(changelog: string): Section[] {
  return changelog
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [title = '', ...lines] = section.split('\n')
      return { name: title.replace(/ \(.*\)$/, ''), text: lines.join('\n').trim() }
    })
}

/** What a release says of itself: its section of the changelog, with links that work anywhere, and its images. */
export function releaseNotes(changelog: string, release: Release): string {
  const { version, source, base, images } = release
  const section = sectionsOf(changelog).find(({ name }) => name === version)
  if (!section || section.text === '')
    throw new Error(
      `CHANGELOG.md says nothing of ${version}: it needs entries below "## ${version} (date)".`,
    )
  const page = `${source}/blob/v${version}/`
  const text = section.text.replaceAll(/\]\((?![a-z]+:)(?!#)([^)\s]+)\)/g, `](${page}$1)`)
  const list = images.map((image) => `- \`${image}\``).join('\n')
  const verify = `[How to install and verify](${page}docs/install.md)`
  return `${text}\n\n### Images\n\n${list}\n\nMade from \`${base}\`. ${verify}.\n`
}

if (import.meta.main) {
  const { BASE: base = '', SOURCE: source = '' } = process.env
  const [version = '', ...images] = process.argv.slice(2)
  const changelog = readFileSync(join(import.meta.dirname, '../../CHANGELOG.md'), 'utf8')
  process.stdout.write(releaseNotes(changelog, { version, source, base, images }))
}
