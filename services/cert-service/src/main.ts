#!/usr/bin/env node
import { runService, type ServiceCommand } from '@gatehouse/service-kit'
import { loadCertConfig } from './config/load.ts'
import { type CertServiceConfig, isPlain } from './config/schema.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-certs: TLS certificates over HTTP, from an embedded private CA and from ACME CAs

  gatehouse-certs serve                 run the service
  gatehouse-certs check-config          check the configuration and report all errors
  gatehouse-certs healthcheck           ask the running service whether it is ready
  gatehouse-certs backup FILE           copy the store, also while the service runs
  gatehouse-certs restore FILE          put a backup into an empty data folder
  gatehouse-certs rekey                 replace the master key
  gatehouse-certs ca detach-root FILE   move the private key of the root into FILE, to be kept offline
  gatehouse-certs acme rollover ISSUER  give the ACME account of an issuer another key

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/cert-service/config.yaml)
  --new           for serve: create a new store and CA for a master key that exists
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --help          show this text
  --version       show the version
`

const COMMANDS: Readonly<Record<string, ServiceCommand<CertServiceConfig>>> = {
  'backup FILE': async ({ storage }, file) => {
    const { backup } = await import('./cli/backup.ts')
    await backup({ folder: storage.path, file })
    return `${file} holds a copy of the store; keep ${storage.masterKeyFile} in another place\n`
  },
  'restore FILE': async ({ storage: { path: folder } }, file) => {
    const { restore } = await import('./cli/backup.ts')
    await restore({ folder, file })
    return `${folder} now holds the store of ${file}\n`
  },
  rekey: async ({ storage: { path: folder, masterKeyFile } }) => {
    const { rekey } = await import('./cli/keys.ts')
    await rekey({ folder, masterKeyFile })
    return `${masterKeyFile} is a new key; the old one no longer opens the store\n`
  },
  'ca detach-root FILE': async ({ storage: { path: folder, masterKeyFile } }, file) => {
    const { detachRoot } = await import('./cli/keys.ts')
    await detachRoot({ folder, masterKeyFile, file })
    return `${file} now holds the private key of the root; the store no longer does\n`
  },
  'acme rollover ISSUER': async ({ storage: { path: folder, masterKeyFile }, issuers }, name) => {
    const { rollover } = await import('./cli/keys.ts')
    await rollover({ folder, masterKeyFile, issuers, name })
    return `the account of ${name} has a new key; the CA no longer accepts the old one\n`
  },
}

void runService(
  {
    program: 'gatehouse-certs',
    name: 'cert-service',
    version: VERSION,
    help: HELP,
    flags: { new: ['serve'] },
    commands: COMMANDS,
    load: loadCertConfig,
    usesTls: ({ server }) => !isPlain(server.tls),
    serve: async (options) => (await import('./cli/serve.ts')).serve(options),
  },
  process,
)
