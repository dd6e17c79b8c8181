#!/usr/bin/env node
import {
  createLogger,
  describeValid,
  healthcheck,
  locateConfig,
  readCommandLine,
  refuseCommand,
  runProgram,
} from '@gatehouse/service-kit'
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

const COMMANDS = ['serve', 'check-config', 'healthcheck']

async function main(args: string[]): Promise<void> {
  const { words, config: flag, help, version, withoutSecrets } = readCommandLine(args)
  if (help) return write(HELP)
  if (version) return write(`gatehouse-auth ${VERSION}\n`)
  const command = words.join(' ')
  if (!COMMANDS.includes(command)) refuseCommand(words, HELP)
  const { env } = process
  const name = 'forward-auth'
  const path = await locateConfig({ env, name, ...(flag !== undefined && { flag }) })
  if (command === 'check-config') {
    const checked = await loadForwardAuthConfig(path, env, { beforeStart: true, withoutSecrets })
    return write(`${describeValid(checked)}${describeRedirectUris(checked.value)}`)
  }
  const load = () => loadForwardAuthConfig(path, env)
  const loaded = await loadForwardAuthConfig(path, env, { beforeStart: command === 'serve' })
  const { log, server } = loaded.value

  if (command === 'healthcheck') {
    await healthcheck({ ...server, tls: server.tls !== undefined })
    return write('ready\n')
  }
  const { serve } = await import('./cli/serve.ts')
  await serve({ loaded, log: createLogger({ ...log, name }), env, load })
}

function write(text: string): void {
  process.stdout.write(text)
}

runProgram('gatehouse-auth', main)
