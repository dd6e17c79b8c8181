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
  gatehouse-auth doctor URL     ask an app through its proxy, and name what is wrong with the proxy

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --since SPAN    for audit: how far to look back; 24h if it is left out
  --portal NAME   for audit: events of this portal; for explain and doctor: the portal that is asked
  --person ID     for audit: events of this person, such as corp:ada or ada
  --json          for audit: JSON lines, as when the output is not a terminal
  --host HOST     for explain: the host of the app
  --path PATH     for explain: path and query; / if it is left out
  --method NAME   for explain: the method; GET if it is left out
  --from ADDRESS  for explain: the address of the client
  --policy NAME   for explain: the policy that the proxy names
  --if CONDITION  for explain: the condition that the proxy gives
  --as FILE       for explain: the claims of a person as JSON; nobody if it is left out; for doctor:
                  signs in with these claims, at an app that answers with the headers that it gets
  --provider NAME for explain: the provider of that person; the first one if it is left out
  --proxy NAME    for doctor: nginx, caddy, traefik, envoy or haproxy, where it is not seen
  --resolve ADDR  for doctor: connect to this address, such as 127.0.0.1:8443
  --ca FILE       for doctor: CA certificates of the proxy, in PEM
  --insecure      for doctor: accept any certificate of the proxy
  --help          show this text
  --version       show the version
`

const COMMANDS: Readonly<Record<string, ServiceCommand<ForwardAuthConfig>>> = {
  async audit({ storage }, _argument, { flags, values, isTerminal }) {
    const { listAudit, readSince } = await import('./cli/audit.ts')
    const { readAudit } = await import('./store/open.ts')
    const { since = '24h', portal, person } = values
    const asJson = flags.has('json') || !isTerminal
    const start = readSince(since, systemClock.now())
    return listAudit({ rows: readAudit(storage, start), portal, person, asJson })
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
  async 'doctor URL'(config, url, { flags, values }) {
    const { doctor } = await import('./cli/doctor.ts')
    const { ca: caFile, as: claimsFile, ...rest } = values
    return doctor(config, { url, ...rest, caFile, claimsFile, insecure: flags.has('insecure') })
  },
}

void runService(
  {
    program: 'gatehouse-auth',
    name: 'forward-auth',
    version: VERSION,
    help: HELP,
    flags: { json: ['audit'], insecure: ['doctor'] },
    values: {
      ...{ since: ['audit'], portal: ['audit', 'explain', 'doctor'], person: ['audit'] },
      ...{ host: ['explain'], path: ['explain'], method: ['explain'], from: ['explain'] },
      ...{ policy: ['explain'], if: ['explain'], as: ['explain', 'doctor'] },
      ...{ provider: ['explain'], proxy: ['doctor'], resolve: ['doctor'], ca: ['doctor'] },
    },
    commands: COMMANDS,
    load: loadForwardAuthConfig,
    usesTls: ({ server }) => server.tls !== undefined,
    describe: describeRedirectUris,
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
