import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const API_KEY = 'correct-horse-battery-staple'

export interface ServiceFiles {
  readonly config: string
  remove(): void
}

/** A new folder with a configuration of cert-service, and room for its data and keys. */
export function writeServiceFiles(tls: 'own' | 'off' = 'own'): ServiceFiles {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'))
  const config = join(folder, 'config.yaml')
  writeFileSync(
    config,
    `server: { port: 0, tls: ${tls} }
metrics: { port: 0 }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { keys: [{ name: bench, key: ${API_KEY}, domains: ['*.example.com'] }] } }
limits: { perCaller: { names: 1000000, issuancesPerMinute: 100000, burst: 100000 } }
`,
  )
  return { config, remove: () => rmSync(folder, { recursive: true }) }
}
