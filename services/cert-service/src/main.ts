#!/usr/bin/env node
import { runService, type ServiceCommand } from '@gatehouse/service-kit'
import { clientCommand, runClient } from './cli/client/run.ts'
import { loadCertConfig } from './config/load.ts'
import { type CertServiceConfig, isPlain } from './config/schema.ts'
import { CertError } from './errors.ts'
import { VERSION } from './version.ts'

const HELP = `gatehouse-certs: TLS certificates over HTTP, from an embedded private CA and from ACME CAs

  gatehouse-certs serve                 run the service
  gatehouse-certs check-config          check the configuration and report all errors
  gatehouse-certs healthcheck           ask the running service whether it is ready
  gatehouse-certs backup FILE           copy the store, also while the service runs
  gatehouse-certs restore FILE          put a backup into an empty data folder
  gatehouse-certs move                  copy the store from its folder to a database, or back
  gatehouse-certs rekey                 replace the master key
  gatehouse-certs ca detach-root FILE   move the private key of the root into FILE, to be kept offline
  gatehouse-certs acme rollover ISSUER  give the ACME account of an issuer another key

  gatehouse-certs get NAME...           fetch a certificate into files and keep it up to date
  gatehouse-certs list                  list certificates of a service
  gatehouse-certs show NAME             show one
  gatehouse-certs renew NAME            renew it, if it is due
  gatehouse-certs revoke NAME           revoke the certificates of a name
  gatehouse-certs delete NAME           stop answering and renewing them
  gatehouse-certs order ID              show the progress of an order

  --config FILE   configuration (else $GATEHOUSE_CONFIG, config.yaml,
                  /etc/gatehouse/cert-service/config.yaml)
  --to TARGET     for move: the URL of the database, or a file with it; or a folder for the store
  --new           for serve: create a new store and CA for a master key that exists
  --no-secrets    for check-config: skip secrets and files that do not exist here, as in CI
  --help          show this text
  --version       show the version
`

const COMMANDS: Readonly<Record<string, ServiceCommand<CertServiceConfig>>> = {
  'backup FILE': async ({ storage }, file) => {
    const { backup } = await import('./cli/backup.ts')
    await backup({ folder: folderOf(storage), file })
    return `${file} holds a copy of the store; keep ${storage.masterKeyFile} in another place\n`
  },
  'restore FILE': async ({ storage }, file) => {
    const { restore } = await import('./cli/backup.ts')
    await restore({ folder: folderOf(storage), file })
    return `${storage.path} now holds the store of ${file}\n`
  },
  async move({ storage }, _argument, { values }) {
    const { move } = await import('./cli/move.ts')
    return move(storage, values.to)
  },
  rekey: async ({ storage }) => {
    const { rekey } = await import('./cli/keys.ts')
    await rekey({ folder: storage.path, ...storage })
    const copies =
      storage.url === undefined ? '' : '; copy it to each replica before its next start'
    return `${storage.masterKeyFile} is a new key; the old one no longer opens the store${copies}\n`
  },
  'ca detach-root FILE': async ({ storage }, file) => {
    const { detachRoot } = await import('./cli/keys.ts')
    await detachRoot({ folder: storage.path, ...storage, file })
    return `${file} now holds the private key of the root; the store no longer does\n`
  },
  'acme rollover ISSUER': async ({ storage, issuers }, name) => {
    const { rollover } = await import('./cli/keys.ts')
    await rollover({ folder: storage.path, ...storage, issuers, name })
    return `the account of ${name} has a new key; the CA no longer accepts the old one\n`
  },
}

function folderOf({ url, path }: CertServiceConfig['storage']): string {
  if (url === undefined) return path
  throw new CertError('CERT_STORE_SHARED', 'The store is a database: use pg_dump and pg_restore.')
}

const client = clientCommand(process.argv.slice(2))
if (client) void runClient(client, process)
else
  void runService(
    {
      program: 'gatehouse-certs',
      name: 'cert-service',
      version: VERSION,
      help: HELP,
      flags: { new: ['serve'] },
      values: { to: ['move'] },
      commands: COMMANDS,
      load: loadCertConfig,
      usesTls: ({ server }) => !isPlain(server.tls),
      serve: async (options) => (await import('./cli/serve.ts')).serve(options),
    },
    process,
  )
