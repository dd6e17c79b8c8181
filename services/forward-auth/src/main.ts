#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { createLogger, locateConfig } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from './config/load.ts'

const HELP = `gatehouse-auth: single sign-on for what a reverse proxy serves

  gatehouse-auth serve          run the service
  gatehouse-auth check-config   read the configuration and report its faults
  gatehouse-auth healthcheck    ask the running service whether it is ready

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/forward-auth/config.yaml)
  --help          this text
`

/** Wrong use of the command line. */
class UsageError extends Error {}

async function main(argv: string[]): Promise<void> {
  const { values, positionals } = readArgs(argv)
  if (values.help) return write(HELP)
  const command = readCommand(positionals)
  const { env } = process
  const flag = values.config
  const path = await locateConfig({
    env,
    name: 'forward-auth',
    ...(flag !== undefined && { flag }),
  })
  const load = () => loadForwardAuthConfig(path, env)
  const loaded = await load()

  if (command === 'check-config') return write(`${path} is valid\n`)
  if (command === 'healthcheck') {
    const { healthcheck } = await import('./cli/healthcheck.ts')
    await healthcheck(loaded.value)
    return write('ready\n')
  }
  const { serve } = await import('./cli/serve.ts')
  const log = createLogger({ ...loaded.value.log, name: 'forward-auth' })
  await serve({ loaded, log, load })
}

const COMMANDS = ['serve', 'check-config', 'healthcheck'] as const

function readCommand(words: readonly string[]): (typeof COMMANDS)[number] {
  const text = words.join(' ')
  const command = COMMANDS.find((known) => known === text)
  if (command) return command
  throw new UsageError(
    text === '' ? `which command?\n\n${HELP}` : `cannot do "${text}"; see --help`,
  )
}

function readArgs(args: string[]) {
  try {
    const options = { config: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function write(text: string): void {
  process.stdout.write(text)
}

await main(process.argv.slice(2)).catch((error: Error) => {
  process.stderr.write(`gatehouse-auth: ${error.message}\n`)
  process.exitCode = error instanceof UsageError ? 2 : 1
})
