#!/usr/bin/env node
import { runService } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'
import { describeRedirectUris } from './config/redirect-uris.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   check the configuration and report all errors
  gatehouse-auth healthcheck    ask the running service whether it is ready

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --help          show this text
  --version       show the version
`

void runService(
  {
    program: 'gatehouse-auth',
    name: 'forward-auth',
    version: VERSION,
    help: HELP,
    load: loadForwardAuthConfig,
    usesTls: ({ server }) => server.tls !== undefined,
    describe: describeRedirectUris,
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
