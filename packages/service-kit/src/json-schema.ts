import { existsSync, readFileSync } from 'node:fs'

/** The folders of the schemas: beside the modules of a bundle, or in a checkout. */
const FOLDERS = ['..', '../../../docs/reference']

/** The JSON Schema of the configuration of a service, for editors. `scripts/reference.ts` makes it. */
export function readJsonSchema(name: string): string {
  const files = FOLDERS.map((folder) => new URL(`${folder}/${name}.schema.json`, import.meta.url))
  return readFileSync(files.find(existsSync) ?? '', 'utf8')
}
