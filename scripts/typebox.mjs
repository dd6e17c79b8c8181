// TypeBox is 540 modules, which take longer to load than many test files take to run. Test files load a bundle of it.
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const ENTRIES = ['typebox', 'typebox/compile', 'typebox/schema', 'typebox/value']

/** The bundle's modules: their URLs, by what is imported. It is made when it is first needed. */
export async function bundleTypebox() {
  const { version } = JSON.parse(readFileSync('node_modules/typebox/package.json', 'utf8'))
  const folder = resolve(`node_modules/.cache/typebox-${version}`)
  if (!existsSync(folder)) await bundle(folder)
  return new Map(ENTRIES.map((entry) => [entry, pathToFileURL(join(folder, fileOf(entry))).href]))
}

async function bundle(folder) {
  const { buildSync } = await import('esbuild')
  const outdir = mkdtempSync(`${folder}-`)
  buildSync({
    entryPoints: ENTRIES.map((entry) => ({ in: entry, out: fileOf(entry).replace(/\.mjs$/, '') })),
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
  })
  try {
    renameSync(outdir, folder)
  } catch {
    // Another test file was first.
    rmSync(outdir, { recursive: true })
  }
}

const fileOf = (entry) => `${entry.replace('/', '-')}.mjs`
