import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createLogger, createMetrics } from '@gatehouse/service-kit/telemetry'
import { buildApp } from '../../services/forward-auth/src/app.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { AUDIENCE } from '../harness/issuer.ts'
import { serve } from '../harness/serve.ts'
import { API_KEY, forwardAuthFiles } from '../harness/service-files.ts'
import { RESOURCE, SCOPE, storeAgents, storeVisitors } from '../harness/visitors.ts'

/** The URL is that of an issuer or of an MCP server. */
const [, , kind, sessions = '0', url] = process.argv
/** With metrics and ended sessions, as it runs for people. */
const isProduction = kind === 'production'

const HOSTS = 'hosts: [app.example.com]'
const SCOPES = `scopes: [{ name: "${SCOPE}", text: Read }]`
const READING =
  '  - { hosts: [app.example.com], paths: [/mcp], tools: ["read_*", notes.list], require: staff }'
/** What the portal has besides. */
const PORTALS: Readonly<Record<string, readonly string[]>> = {
  'with assertion': ['assertion: { hosts: [app.example.com] }'],
  'with programs': [
    'callers:',
    `  keys: [{ name: bench, key: ${API_KEY}, ${HOSTS} }]`,
    `  issuers: [{ name: ci, issuerUrl: "${url}", audience: "${AUDIENCE}", ${HOSTS} }]`,
  ],
  'with a rule': ['rules:', '  - { hosts: [app.example.com], require: staff }'],
  'with rules for tools': [
    'rules:',
    '  - { hosts: [app.example.com], tools: ["delete_*"], require: staff }',
    '  - { hosts: [app.example.com], tools: ["read_*", notes.list], require: staff }',
  ],
  'with agents': [
    `resources: [{ url: "${RESOURCE}", ${SCOPES} }]`,
    'rules:',
    '  - { hosts: [app.example.com], paths: [/mcp], tools: ["delete_*"], require: staff }',
    READING,
  ],
  'with the MCP proxy': [
    `resources: [{ url: "${RESOURCE}", upstream: { url: "${url}" }, ${SCOPES} }]`,
    'rules:',
    '  - { hosts: [app.example.com], paths: [/mcp], tools: ["delete_*"], require: staff, approve: {} }',
    READING,
    '  - { paths: [/reports/*], require: staff }',
  ],
  'with ten rules': [
    'rules:',
    ...Array.from({ length: 9 }, (_, i) => `  - { paths: [/api/v${i}/*], require: staff }`),
    '  - { hosts: ["*.example.com"], require: staff }',
  ],
}

const storage = kind?.startsWith('{') ? kind : undefined
const files = forwardAuthFiles(isProduction ? 'info' : 'error', PORTALS[kind ?? ''], storage)
process.once('exit', files.remove)

const { value: config } = await loadForwardAuthConfig(files.config, {})
const log = createLogger({ ...config.log, name: 'forward-auth' })
const metrics = isProduction && createMetrics({ service: 'forward-auth', version: 'bench' })
const app = await buildApp(config, { log, ...(metrics && { metrics }) })
if (isProduction) endSessions(10_000)
await storeVisitors(app.authStore, Number(sessions))
const hasAgents = kind === 'with agents' || kind === 'with the MCP proxy'
await serve(app, hasAgents ? { tokens: await storeAgents(app, Number(sessions)) } : {})

/** As another instance on the same folder would, all at once. */
function endSessions(count: number): void {
  if ('url' in config.storage) throw new Error('the bench runs on a folder')
  const db = new DatabaseSync(join(config.storage.path, 'revocations.db'))
  db.exec(`INSERT INTO events (kind, key, until, due)
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    SELECT 'ended', 'ended-session-' || n, ${Date.now() + 3_600_000}, 9e12 FROM numbers`)
  db.close()
}
