import { build } from 'esbuild'

/** Makes one file of a script and all that it imports, so that starting it many times takes less time. */
export async function bundleScript(entry: string, outfile: string): Promise<void> {
  await build({
    ...{ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm' },
    mainFields: ['module', 'main'],
    conditions: ['@gatehouse/source'],
    // CommonJS packages expect it.
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    logLevel: 'warning',
  })
}
