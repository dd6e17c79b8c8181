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
import { loadCertConfig } from './config/load.ts'
import { type CertServiceConfig, isPlain } from './config/schema.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-certs: TLS certificates over HTTP, from an embedded private CA and from ACME CAs

  gatehouse-certs serve                 run the service
  gatehouse-certs check-config          read the configuration and report its faults
  gatehouse-certs healthcheck           ask the running service whether it is ready
  gatehouse-certs backup FILE           copy the store, also while the service runs
  gatehouse-certs restore FILE          put a backup into an empty data folder
  gatehouse-certs rekey                 replace the master key
  gatehouse-certs ca detach-root FILE   move the root's key into FILE, to be kept offline
  gatehouse-certs acme rollover ISSUER  give the ACME account of an issuer another key

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/cert-service/config.yaml)
  --new           for serve: make a new store and CA for a master key that is there already
  --no-secrets    for check-config where the secrets are not, as in CI: absent files are no faults
  --help          this text
  --version       the version
`

async function main(args: string[]): Promise<void> {
  const line = readCommandLine(args, { new: 'serve' })
  const { words, config: flag, help, version, withoutSecrets } = line
  if (help) return write(HELP)
  if (version) return write(`gatehouse-certs ${VERSION}\n`)
  const [command, argument] = readCommand(words)
  const { env } = process
  const name = 'cert-service'
  const path = await locateConfig({ env, name, ...(flag !== undefined && { flag }) })
  if (command === 'check-config')
    return write(
      describeValid(await loadCertConfig(path, env, { beforeStart: true, withoutSecrets })),
    )
  const load = () => loadCertConfig(path, env)
  const loaded = await loadCertConfig(path, env, { beforeStart: command === 'serve' })

  if (command !== 'serve') return run(command, argument, loaded.value)
  const { serve } = await import('./cli/serve.ts')
  const log = createLogger({ ...loaded.value.log, name })
  await serve({ loaded, log, env, load, isNew: line.flags.has('new') })
}

/** The commands that do one thing and end. */
async function run(
  command: Exclude<Command, 'serve' | 'check-config'>,
  argument: string,
  config: CertServiceConfig,
): Promise<void> {
  const { path: folder, masterKeyFile } = config.storage
  if (command === 'healthcheck') {
    const { server } = config
    await healthcheck({ ...server, tls: !isPlain(server.tls) })
    write('ready\n')
  } else if (command === 'backup') {
    const { backup } = await import('./cli/backup.ts')
    await backup({ folder, file: argument })
    write(`${argument} holds a copy of the store; keep ${masterKeyFile} apart from it\n`)
  } else if (command === 'restore') {
    const { restore } = await import('./cli/restore.ts')
    await restore({ folder, file: argument })
    write(`${folder} holds what was in ${argument}\n`)
  } else if (command === 'rekey') {
    const { rekey } = await import('./cli/rekey.ts')
    await rekey({ folder, masterKeyFile })
    write(`${masterKeyFile} is a new key; the old one opens nothing any more\n`)
  } else if (command === 'acme rollover') {
    const { rollover } = await import('./cli/rollover.ts')
    await rollover({ folder, masterKeyFile, issuers: config.issuers, name: argument })
    write(`the account of ${argument} has a new key; the old one signs nothing any more\n`)
  } else {
    const { detachRoot } = await import('./cli/detach-root.ts')
    await detachRoot({ folder, masterKeyFile, file: argument })
    write(`${argument} holds the key of the root now, and the store no longer\n`)
  }
}

const COMMANDS = ['serve', 'check-config', 'healthcheck', 'rekey'] as const
/** With one argument: a file, or an issuer. */
const COMMANDS_WITH_ONE = ['backup', 'restore', 'ca detach-root', 'acme rollover'] as const
type Command = (typeof COMMANDS)[number] | (typeof COMMANDS_WITH_ONE)[number]

function readCommand(words: readonly string[]): [command: Command, argument: string] {
  const text = words.join(' ')
  const plain = COMMANDS.find((command) => command === text)
  if (plain) return [plain, '']
  const withOne = COMMANDS_WITH_ONE.find((command) => words.slice(0, -1).join(' ') === command)
  if (withOne) return [withOne, words.at(-1) ?? '']
  return refuseCommand(words, HELP)
}

function write(text: string): void {
  process.stdout.write(text)
}

runProgram('gatehouse-certs', main)
