// Adds npm packages and lists of packages to a folder, where archive.ts may have put archives, and SHA256SUMS of all.
//   node --conditions=@gatehouse/source scripts/release/make.ts dist/release https://github.com/owner/name
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { LIBRARIES, listLibrary, packLibrary, packService, SERVICES } from './npm.ts'

const CHECKSUMS = 'SHA256SUMS'

export async function makeRelease(out: string, source: string): Promise<void> {
  await mkdir(out, { recursive: true })
  for (const library of LIBRARIES) {
    await packLibrary(library, out, source)
    await listLibrary(library, out)
  }
  for (const service of SERVICES) await packService(service, out, source)
  await writeFile(join(out, CHECKSUMS), await checksumsOf(out))
}

/** As `sha256sum` prints them. */
async function checksumsOf(folder: string): Promise<string> {
  const lines: string[] = []
  for (const name of (await readdir(folder)).sort()) {
    if (name === CHECKSUMS) continue
    const hash = createHash('sha256').update(await readFile(join(folder, name)))
    lines.push(`${hash.digest('hex')}  ${name}\n`)
  }
  return lines.join('')
}

if (import.meta.main) {
  const [out, source] = process.argv.slice(2)
  if (!out || !source) {
    console.error('usage: make.ts <folder> <where the repository is on the web>')
    process.exit(2)
  }
  await makeRelease(resolve(out), source)
}
