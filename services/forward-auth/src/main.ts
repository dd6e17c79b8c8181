#!/usr/bin/env node
import { runService, type ServiceCommand, systemClock } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'
import { describeRedirectUris } from './config/redirect-uris.ts'
import type { ForwardAuthConfig } from './config/schema.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   check the configuration and report all errors
  gatehouse-auth healthcheck    ask the running service whether it is ready
  gatehouse-auth audit          list who signed in and out, and who was refused

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --since SPAN    for audit: how far to look back; 24h if it is left out
  --portal NAME   for audit: events of this portal
  --person ID     for audit: events of this person, such as corp:ada or ada
  --json          for audit: JSON lines, as when the output is not a terminal
  --help          show this text
  --version       show the version
`

const COMMANDS: Readonly<Record<string, ServiceCommand<ForwardAuthConfig>>> = {
  async audit({ storage }, _argument, { flags, values, isTerminal }) {
    const { listAudit, readSince } = await import('./cli/audit.ts')
    const { auditFolder } = await import('./audit/day-files.ts')
    const { since = '24h', portal, person } = values
    const asJson = flags.has('json') || !isTerminal
    const start = readSince(since, systemClock.now())
    return listAudit({ folder: auditFolder(storage), since: start, portal, person, asJson })
  },
}

void runService(
  {
    program: 'gatehouse-auth',
    name: 'forward-auth',
    version: VERSION,
    help: HELP,
    flags: { json: ['audit'] },
    values: { since: ['audit'], portal: ['audit'], person: ['audit'] },
    commands: COMMANDS,
    load: loadForwardAuthConfig,
    usesTls: ({ server }) => server.tls !== undefined,
    describe: describeRedirectUris,
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
