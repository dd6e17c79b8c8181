#!/usr/bin/env node
import {
  createLogger,
  healthcheck,
  locateConfig,
  readCommandLine,
  refuseCommand,
  runProgram,
} from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'
import { describeRedirectUris } from './config/redirect-uris.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   read the configuration and report its faults
  gatehouse-auth healthcheck    ask the running service whether it is ready

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --help          this text
`

const COMMANDS = ['serve', 'check-config', 'healthcheck']

async function main(args: string[]): Promise<void> {
  const { words, config: flag, help } = readCommandLine(args)
  if (help) return write(HELP)
  const command = words.join(' ')
  if (!COMMANDS.includes(command)) refuseCommand(words, HELP)
  const { env } = process
  const name = 'forward-auth'
  const path = await locateConfig({ env, name, ...(flag !== undefined && { flag }) })
  const load = () => loadForwardAuthConfig(path, env)
  const loaded = await load()
  const { log, server } = loaded.value

  if (command === 'check-config')
    return write(`${path} is valid\n${describeRedirectUris(loaded.value)}`)
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
