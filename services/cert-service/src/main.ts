#!/usr/bin/env node
import { runService, type ServiceCommand } from '@gatehouse/service-kit'
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

const COMMANDS: Readonly<Record<string, ServiceCommand<CertServiceConfig>>> = {
  'backup FILE': async ({ storage }, file) => {
    const { backup } = await import('./cli/backup.ts')
    await backup({ folder: storage.path, file })
    return `${file} holds a copy of the store; keep ${storage.masterKeyFile} apart from it\n`
  },
  'restore FILE': async ({ storage: { path: folder } }, file) => {
    const { restore } = await import('./cli/backup.ts')
    await restore({ folder, file })
    return `${folder} holds what was in ${file}\n`
  },
  rekey: async ({ storage: { path: folder, masterKeyFile } }) => {
    const { rekey } = await import('./cli/keys.ts')
    await rekey({ folder, masterKeyFile })
    return `${masterKeyFile} is a new key; the old one opens nothing any more\n`
  },
  'ca detach-root FILE': async ({ storage: { path: folder, masterKeyFile } }, file) => {
    const { detachRoot } = await import('./cli/keys.ts')
    await detachRoot({ folder, masterKeyFile, file })
    return `${file} holds the key of the root now, and the store no longer\n`
  },
  'acme rollover ISSUER': async ({ storage: { path: folder, masterKeyFile }, issuers }, name) => {
    const { rollover } = await import('./cli/keys.ts')
    await rollover({ folder, masterKeyFile, issuers, name })
    return `the account of ${name} has a new key; the old one signs nothing any more\n`
  },
}

void runService(
  {
    program: 'gatehouse-certs',
    name: 'cert-service',
    version: VERSION,
    help: HELP,
    flags: { new: 'serve' },
    commands: COMMANDS,
    load: loadCertConfig,
    usesTls: ({ server }) => !isPlain(server.tls),
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
