#!/usr/bin/env node
import { runService } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'
import { describeRedirectUris } from './config/redirect-uris.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   read the configuration and report its faults
  gatehouse-auth healthcheck    ask the running service whether it is ready

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --no-secrets    for check-config where the secrets are not, as in CI: absent files are no faults
  --help          this text
  --version       the version
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
