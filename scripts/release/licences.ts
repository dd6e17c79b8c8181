import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Component, fullName, isOurs, type Sbom } from './sbom.ts'

const RULE = '-'.repeat(80)
/** What licences always say below the line with the copyright, by their SPDX identifiers. */
const STANDARD_TEXTS: Readonly<Record<string, string>> = {
  MIT: readFileSync(join(import.meta.dirname, '../../LICENSE'), 'utf8').replace(
    /^[\s\S]*?(?=Permission)/,
    '',
  ),
  ISC: `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby
granted, provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN
ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.
`,
}

/** The folder of each package that has one of the files, by name and version. */
export function packageFolders(files: readonly string[], from: string): Map<string, string> {
  const folders = new Set(
    files.flatMap((file) => {
      const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]
      return folder === undefined ? [] : join(from, folder)
    }),
  )
  return new Map(
    [...folders].map((folder) => {
      const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      return [`${name}@${version}`, folder]
    }),
  )
}

/** Each text once, below the packages that it is of. */
export function licencesOf(
  { metadata, components }: Sbom,
  folders: ReadonlyMap<string, string>,
): string {
  const byText = new Map<string, string[]>()
  const add = (text: string, title: string) =>
    byText.set(text, [...(byText.get(text) ?? []), title])
  for (const component of components) {
    const name = fullName(component)
    const folder = folders.get(`${name}@${component.version}`)
    if (isOurs(component) || folder === undefined) continue
    const title = `${name} ${component.version} (${licenceOf(component)})`
    for (const text of textsOf(component, folder)) add(text, title)
  }
  const sections = [...byText].map(([text, titles]) => `${RULE}\n${titles.join('\n')}\n\n${text}\n`)
  const { version } = metadata.component
  const title = `${fullName(metadata.component)} ${version} contains these packages of others.`
  return `${title}\n\n${sections.join('\n')}`
}

const licenceOf = ({ licenses = [] }: Component): string =>
  licenses.map(({ license, expression }) => expression ?? license?.id ?? license?.name).join(', ')

function textsOf(component: Component, folder: string): readonly string[] {
  const files = filesOf(component)
  return files.length > 0 ? files : [statedIn(folder, licenceOf(component))]
}

const filesOf = ({ evidence }: Component): readonly string[] =>
  (evidence?.licenses ?? []).map(({ license }) =>
    tidy(Buffer.from(license?.text?.content ?? '', 'base64').toString()),
  )

/** Of a package without a file of its licence: what its README says, else what this licence always says. */
function statedIn(folder: string, licence: string): string {
  const [readme] = globSync('[Rr][Ee][Aa][Dd][Mm][Ee]*', { cwd: folder })
  const text = readme ? readFileSync(join(folder, readme), 'utf8') : ''
  const section = tidy(/^#+ *licen[sc]e\s([\s\S]*?)(?=^#|$(?![\s\S]))/im.exec(text)?.[1] ?? '')
  if (section.includes('Permission is hereby granted')) return section
  const { author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const standard = STANDARD_TEXTS[licence]
  if (standard === undefined) throw new Error(`${folder} has no text of its licence, ${licence}.`)
  return tidy(`Copyright (c) ${author?.name ?? author ?? 'its authors'}\n\n${standard}`)
}

const tidy = (text: string): string => text.replaceAll('\r\n', '\n').trim()
