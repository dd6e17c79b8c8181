import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const API_KEY = 'correct-horse-battery-staple'
export const SESSION_SECRET = 'a secret of the bench, 32 characters and more'

/** A folder with the configuration of a service, and room for its data and keys. */
export interface ServiceFiles {
  readonly config: string
  remove(): void
}

export function certServiceFiles(tls: 'own' | 'off' = 'own'): ServiceFiles {
  return writeConfig(`server: { port: 0, tls: ${tls} }
metrics: { port: 0 }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { keys: [{ name: bench, key: ${API_KEY}, domains: ['*.example.com'] }] } }
limits: { perCaller: { names: 1000000, issuancesPerMinute: 100000, burst: 100000 } }
`)
}

/** @param portal - further lines of the portal, in YAML */
export function forwardAuthFiles(
  logLevel: 'info' | 'error' = 'info',
  portal: readonly string[] = [],
): ServiceFiles {
  return writeConfig(`server: { port: 0, trustedProxies: [127.0.0.0/8, "::1/128", 10.0.0.0/8, 192.168.0.0/16] }
metrics: { port: 0 }
log: { level: ${logLevel}, format: json }
session: { keys: [{ secret: "${SESSION_SECRET}" }] }
storage: { path: data }
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - name: main
    policies: { staff: 'Group("staff")' }
    providers:
      - { type: openIDConnect, name: corp, issuerUrl: "http://localhost:1", clientId: bench, clientSecret: bench }
${portal.map((line) => `    ${line}\n`).join('')}`)
}

function writeConfig(text: string): ServiceFiles {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'))
  const config = join(folder, 'config.yaml')
  writeFileSync(config, text)
  return { config, remove: () => rmSync(folder, { recursive: true }) }
}
