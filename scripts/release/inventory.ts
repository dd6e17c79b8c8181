// What a program is made of: its packages as a CycloneDX document, and their licences.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cyclonedxEsbuildPlugin } from '@cyclonedx/cyclonedx-esbuild'
import type { Plugin } from 'esbuild'
import { parse } from 'yaml'
import { licencesOf, packageFolders } from './licences.ts'
import { completeSbom, type Sbom } from './sbom.ts'

const ROOT = join(import.meta.dirname, '../..')
export const SBOM = 'sbom.cdx.json'
const LICENCES = 'THIRD-PARTY-LICENSES.txt'

/** Has esbuild write into the folder `out` what it bundled, and the licences of that. */
export function inventory(out: string): Plugin[] {
  const list = cyclonedxEsbuildPlugin({
    specVersion: '1.6',
    outputFile: join(out, SBOM),
    gatherLicenseTexts: true,
    outputReproducible: true,
    // A test does that, with what a release does not need.
    validate: false,
    logLevel: 'silent',
  })
  const complete: Plugin = {
    name: 'inventory',
    setup({ initialOptions, onEnd }) {
      onEnd(async ({ errors, metafile }) => {
        if (errors.length > 0 || !metafile) return
        const sbom: Sbom = JSON.parse(await readFile(join(out, SBOM), 'utf8'))
        const { packages } = parse(await readFile(join(ROOT, 'pnpm-lock.yaml'), 'utf8'))
        const whole = JSON.stringify(completeSbom(sbom, packages), null, 2)
        await writeFile(join(out, SBOM), `${whole}\n`)
        const folders = packageFolders(
          Object.keys(metafile.inputs),
          initialOptions.absWorkingDir ?? ROOT,
        )
        await writeFile(join(out, LICENCES), licencesOf(sbom, folders))
      })
    },
  }
  return [list, complete]
}
