// The one version of everything here: checks it for a release, or sets it.
//   node --conditions=@gatehouse/source scripts/release/version.ts check v0.2.0
//   node --conditions=@gatehouse/source scripts/release/version.ts set 0.2.0
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sectionsOf } from './notes.ts'

const ROOT = join(import.meta.dirname, '../..')
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/

/** Where it stands: files, and what is before and after it there. */
const PLACES: readonly (readonly [files: string, around: RegExp])[] = [
  ['{package,{packages,services,examples}/*/package}.json', /(^ {2}"version": ")([^"]+)(",$)/m],
  ['services/*/src/version.ts', /(\bVERSION = ')([^']+)(')/],
  ['Dockerfile', /(^ARG VERSION=)(\S+)()/m],
  ['deploy/helm/*/Chart.yaml', /(^version: )(\S+)()/m],
  ['deploy/helm/*/Chart.yaml', /(^appVersion: )(\S+)()/m],
]

/** What keeps a tag from being released; empty if nothing does. */
export function faultsOf(tag: string, root: string = ROOT): string[] {
  const version = tag.replace(/^v/, '')
  if (!tag.startsWith('v') || !VERSION.test(version))
    return [`The tag ${tag} is no version: it should look like v1.2.3.`]
  const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8')
  return [
    ...placesIn(root).flatMap(({ file, text, around }) => {
      const found = around.exec(text)?.[2]
      const remedy = `scripts/release/version.ts set ${version} writes it.`
      return found === version ? [] : [`${file} has version ${found}, not ${version}: ${remedy}`]
    }),
    ...changelogFaults(changelog, version),
  ]
}

function changelogFaults(changelog: string, version: string): string[] {
  const [first, second] = sectionsOf(changelog)
  const latest = first?.name === 'Unreleased' ? second : first
  if (latest?.name !== version)
    return [
      `CHANGELOG.md has no section "## ${version} (date)" on top: give "## Unreleased" this title.`,
    ]
  if (first?.name === 'Unreleased' && first.text !== '')
    return [`CHANGELOG.md has entries under "Unreleased": move them to "${version}".`]
  return []
}

/** Writes a version everywhere, and makes the section of it in the changelog. */
export function setVersion(version: string, date: string, root: string = ROOT): void {
  if (!VERSION.test(version))
    throw new Error(`${version} is no version: it should look like 1.2.3.`)
  for (const { file, around } of placesIn(root)) {
    const text = readFileSync(join(root, file), 'utf8')
    if (!around.test(text)) throw new Error(`${file} has no version where one is expected.`)
    writeFileSync(join(root, file), text.replace(around, `$1${version}$3`))
  }
  const file = join(root, 'CHANGELOG.md')
  const title = `## Unreleased\n\n## ${version} (${date})`
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^## Unreleased$/m, title))
}

const placesIn = (root: string) =>
  PLACES.flatMap(([pattern, around]) =>
    globSync(pattern, { cwd: root, exclude: ['**/node_modules/**'] })
      .map((file) => ({ file, around, text: readFileSync(join(root, file), 'utf8') }))
      // The benchmarks and the quick start have none.
      .filter(({ file, text }) => around.test(text) || !file.startsWith('examples/')),
  )

if (import.meta.main) {
  const [command, value = ''] = process.argv.slice(2)
  if (command === 'set') setVersion(value, new Date().toISOString().slice(0, 10))
  else if (command === 'check') {
    const faults = faultsOf(value)
    for (const fault of faults) console.error(fault)
    if (faults.length > 0) process.exit(1)
  } else {
    console.error('usage: version.ts check v1.2.3 | version.ts set 1.2.3')
    process.exit(2)
  }
}
