import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const API_KEY = 'correct-horse-battery-staple'
export const SESSION_SECRET = 'a secret of the bench, 32 characters and more'

/** The `storage` of replicas that share a schema of a database. */
export function databaseStorage(url: string, schema: string, masterKey?: string): string {
  const key = masterKey === undefined ? '' : `, masterKey: "${masterKey}"`
  return `{ url: "${url}", schema: ${schema}${key} }`
}

/** A folder with the configuration of a service, and room for its data and keys. */
export interface ServiceFiles {
  readonly config: string
  remove(): void
}

/**
 * @param storage - YAML; default: SQLite in a folder of its own
 * @param more - further lines, in YAML
 */
export function certServiceFiles(
  tls: 'own' | 'off' = 'own',
  storage = '{ path: data, masterKeyFile: keys/master.key }',
  more = '',
): ServiceFiles {
  return writeConfig(`server: { port: 0, tls: ${tls} }
metrics: { port: 0 }
storage: ${storage}
auth: { psk: { keys: [{ name: bench, key: ${API_KEY}, domains: ['*.example.com'] }] } }
limits: { perCaller: { names: 1000000, issuancesPerMinute: 100000, burst: 100000 } }
${more}`)
}

/**
 * @param portal - further lines of the portal, in YAML
 * @param storage - YAML; default: SQLite in a folder of its own
 */
export function forwardAuthFiles(
  logLevel: 'info' | 'error' = 'info',
  portal: readonly string[] = [],
  storage = '{ path: data }',
): ServiceFiles {
  return writeConfig(`server: { port: 0, trustedProxies: [127.0.0.0/8, "::1/128", 10.0.0.0/8, 192.168.0.0/16] }
metrics: { port: 0 }
log: { level: ${logLevel}, format: json }
session: { keys: [{ secret: "${SESSION_SECRET}" }] }
storage: ${storage}
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - name: main
    policies: { staff: 'Group("staff")' }
    providers:
      - { type: openIDConnect, name: corp, issuerUrl: "http://localhost:1", clientId: bench, clientSecret: bench }
${portal.map((line) => `    ${line}\n`).join('')}`)
}

export function writeConfig(text: string): ServiceFiles {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'))
  const config = join(folder, 'config.yaml')
  writeFileSync(config, text)
  return { config, remove: () => rmSync(folder, { recursive: true }) }
}
