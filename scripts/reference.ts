import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { ACME_ERRORS } from '@gatehouse/acme'
import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { CLIENT_ERRORS } from '@gatehouse/certs-client'
import { GATE_ERRORS } from '@gatehouse/gate'
import { PROVIDER_ERRORS } from '@gatehouse/identity-providers'
import { PROGRAMS } from '@gatehouse/migrate'
import { NET_ERRORS } from '@gatehouse/net'
import { PKI_ERRORS } from '@gatehouse/pki'
import { PROFILE_ERRORS } from '@gatehouse/profile'
import { CONFIG_ERRORS } from '@gatehouse/service-kit/config'
import { FASTIFY_ERRORS, HTTP_ERRORS } from '@gatehouse/service-kit/http'
import { programSyntax } from '@gatehouse/service-kit/program'
import { STORE_ERRORS } from '@gatehouse/store'
import { PROGRAM as CERTS } from '../services/cert-service/src/cli/program.ts'
import { CertServiceSchema } from '../services/cert-service/src/config/schema.ts'
import { CERT_ERRORS, STATUS_OF as CERT_STATUS } from '../services/cert-service/src/errors.ts'
import { describeApi as describeCertApi } from '../services/cert-service/src/openapi.ts'
import { PROGRAM as AUTH } from '../services/forward-auth/src/cli/program.ts'
import { ForwardAuthSchema } from '../services/forward-auth/src/config/schema.ts'
import { FWA_ERRORS, STATUS_OF } from '../services/forward-auth/src/errors.ts'
import { describeApi as describeAuthApi } from '../services/forward-auth/src/openapi.ts'
import { anchorOf } from './reference/anchors.ts'
import { valuesSchema } from './reference/chart.ts'
import { contentsOf, renderCommands } from './reference/commands.ts'
import { renderReference } from './reference/configuration.ts'
import { jsonSchemaOf } from './reference/json-schema.ts'
import { renderProxies, renderProxyHeaders } from './reference/proxies.ts'
import { renderSettings } from './reference/settings.ts'

/** Writes docs/reference, and tables of guides, from the code that they describe; `--check` only compares. */
const root = join(import.meta.dirname, '..')

const VALUES_SCHEMA = 'deploy/helm/gatehouse/values.schema.json'
/** The schemas of the configurations in the values of the chart. */
const CONFIGS = {
  forwardAuth: jsonSchemaOf('forward-auth', ForwardAuthSchema),
  certService: jsonSchemaOf('cert-service', CertServiceSchema),
}

interface ErrorRow {
  readonly title: string
  readonly action: string
  readonly status?: number
}

const ERRORS: readonly [heading: string, table: Readonly<Record<string, ErrorRow>>][] = [
  ['Certificates (cert-service)', CERT_ERRORS],
  ['The client of cert-service', CLIENT_ERRORS],
  ['Logins (forward-auth)', FWA_ERRORS],
  ['Checks (forward-auth)', withStatus(GATE_ERRORS)],
  ['Identity providers (forward-auth)', withStatus(PROVIDER_ERRORS)],
  ['Authentication (auth-core)', AUTH_ERRORS],
  ['Names, keys and X.509 (pki)', PKI_ERRORS],
  ['Public certificates (acme)', ACME_ERRORS],
  ['Profiles and conditions (profile)', PROFILE_ERRORS],
  ['Configuration', CONFIG_ERRORS],
  ['HTTP', { ...HTTP_ERRORS, ...FASTIFY_ERRORS }],
  ['SQLite and PostgreSQL (store)', withStatus(STORE_ERRORS, CERT_STATUS)],
  ['Network', NET_ERRORS],
]

/** The errors of a package with the statuses that a service gives them. */
function withStatus(
  table: Readonly<Record<string, ErrorRow>>,
  statusOf: Readonly<Record<string, number>> = STATUS_OF,
) {
  return Object.fromEntries(
    Object.entries(table).map(([code, row]) => [code, { ...row, status: statusOf[code] ?? 500 }]),
  )
}

/** Every generated file, and every guide with a generated table, by its path from the root. */
export async function referenceFiles(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['docs/reference/command-line.md', commandLinePage()],
    ['docs/reference/errors.md', errorsPage()],
    ['docs/reference/cert-service.md', configurationPage('cert-service', CertServiceSchema)],
    ['docs/reference/cert-service.schema.json', jsonSchemaOf('cert-service', CertServiceSchema)],
    ['docs/reference/cert-service.openapi.json', toJson(await describeCertApi())],
    ['docs/reference/forward-auth.md', configurationPage('forward-auth', ForwardAuthSchema)],
    ['docs/reference/forward-auth.schema.json', jsonSchemaOf('forward-auth', ForwardAuthSchema)],
    ['docs/reference/forward-auth.openapi.json', toJson(await describeAuthApi())],
    [VALUES_SCHEMA, valuesSchema(readFileSync(join(root, VALUES_SCHEMA), 'utf8'), CONFIGS)],
    ...Object.entries(PROGRAMS).map(([name, { tables }]) =>
      withTables(
        `docs/moving-from-${name}.md`,
        Object.entries(tables).map(([program, table]) => [
          `settings: ${program}`,
          renderSettings(table, program),
        ]),
      ),
    ),
    withTables('docs/proxies.md', [
      ['proxies', renderProxies()],
      ['proxy headers', renderProxyHeaders()],
    ]),
  ])
}

/** A page with its tables, each between two comments. */
function withTables(
  file: string,
  tables: readonly (readonly [name: string, table: string])[],
): [file: string, text: string] {
  let text = readFileSync(join(root, file), 'utf8')
  for (const [name, table] of tables) {
    const comment = `<!-- ${name} -->\n\n`
    const start = text.indexOf(comment) + comment.length
    const end = text.indexOf('\n<!-- end -->', start - 1)
    if (start < comment.length || end < 0) throw new Error(`${file} has no place for ${name}`)
    text = text.slice(0, start) + table + text.slice(end)
  }
  return [file, text]
}

function configurationPage(service: string, schema: Parameters<typeof renderReference>[0]): string {
  return renderReference(schema, { title: `${service}: configuration` })
}

function commandLinePage(): string {
  const programs = [programSyntax(CERTS), programSyntax(AUTH)]
  const contents = programs.map(contentsOf).join('\n')
  return `# Command line\n\n${contents}\n\n${programs.map(renderCommands).join('\n')}`
}

function toJson(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`
}

function errorsPage(): string {
  const sections = ERRORS.map(([heading, table]) => {
    const blocks = Object.entries(table)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([code, { status, title, action }]) => {
        const meaning = status === undefined ? title : `${status}: ${title}`
        return `### \`${code}\`\n\n${meaning}\n\n${action}\n`
      })
    return `## ${heading}\n\n${blocks.join('\n')}`
  })
  const contents = ERRORS.map(([heading]) => `- [${heading}](#${anchorOf(heading)})`).join('\n')
  return `# Errors\n\nOn the wire every error is \`application/problem+json\` (RFC 9457) with one of these codes; in logs and on the\ncommand line the same codes appear. Codes are stable. \`type\` of a problem links to its code on the\npage \`/errors\` that each service has. Each code has the status of the answer, what it means, and what to do.\n\n${contents}\n\n${sections.join('\n')}`
}

if (import.meta.main) {
  const { check } = parseArgs({ options: { check: { type: 'boolean' } } }).values
  for (const [file, text] of await referenceFiles()) {
    if (check && readFileSync(join(root, file), 'utf8') !== text) {
      console.error(`${file} is not what the code says: run \`npm run docs\``)
      process.exitCode = 1
    } else if (!check) {
      mkdirSync(dirname(join(root, file)), { recursive: true })
      writeFileSync(join(root, file), text)
      console.log(file)
    }
  }
}
