#!/usr/bin/env node
import { runService, type ServiceCommand, systemClock, UsageError } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'
import { describeRedirectUris } from './config/redirect-uris.ts'
import type { ForwardAuthConfig } from './config/schema.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   check the configuration and report all errors
  gatehouse-auth healthcheck    ask the running service whether it is ready
  gatehouse-auth audit          list who signed in and out, and who was refused
  gatehouse-auth explain        say what a check decides about a request, and why

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --since SPAN    for audit: how far to look back; 24h if it is left out
  --portal NAME   for audit: events of this portal; for explain: the portal that is asked
  --person ID     for audit: events of this person, such as corp:ada or ada
  --json          for audit: JSON lines, as when the output is not a terminal
  --host HOST     for explain: the host of the app
  --path PATH     for explain: path and query; / if it is left out
  --method NAME   for explain: the method; GET if it is left out
  --from ADDRESS  for explain: the address of the client
  --policy NAME   for explain: the policy that the proxy names
  --if CONDITION  for explain: the condition that the proxy gives
  --as FILE       for explain: the claims of a person as JSON; nobody if it is left out
  --provider NAME for explain: the provider of that person; the first one if it is left out
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
  async explain(config, _argument, { values }) {
    const { explain } = await import('./cli/explain.ts')
    const { host, path = '/', method = 'GET', portal, policy, from, provider } = values
    if (host === undefined) throw new UsageError('explain needs --host, the host of the app')
    return explain(config, {
      ...{ host, path, method, portal, policy, from, provider },
      condition: values.if,
      claimsFile: values.as,
      now: systemClock.now(),
    })
  },
}

void runService(
  {
    program: 'gatehouse-auth',
    name: 'forward-auth',
    version: VERSION,
    help: HELP,
    flags: { json: ['audit'] },
    values: {
      ...{ since: ['audit'], portal: ['audit', 'explain'], person: ['audit'] },
      ...{ host: ['explain'], path: ['explain'], method: ['explain'], from: ['explain'] },
      ...{ policy: ['explain'], if: ['explain'], as: ['explain'], provider: ['explain'] },
    },
    commands: COMMANDS,
    load: loadForwardAuthConfig,
    usesTls: ({ server }) => server.tls !== undefined,
    describe: describeRedirectUris,
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
