import { clientCommands } from '@gatehouse/certs-client'
import {
  COMMON_OPTIONS,
  type ServiceCommand,
  type ServiceProgram,
  UsageError,
} from '@gatehouse/service-kit/program'
import { loadCertConfig } from '../config/load.ts'
import { type CertServiceConfig, isPlain } from '../config/schema.ts'
import { actionFor } from '../errors.ts'
import { VERSION } from '../version.ts'
import { START_RULES } from './start-rules.ts'

type Command = ServiceCommand<CertServiceConfig>

const load: ServiceProgram<CertServiceConfig>['load'] = (file, env, settings = {}) => {
  const { beforeStart, ...options } = settings
  return loadCertConfig(file, env, { ...options, ...(beforeStart && { startRules: START_RULES }) })
}

const UPKEEP = { group: 'Upkeep, while the service is stopped:', readsConfig: true } as const

const COMMANDS: readonly Command[] = [
  {
    usage: 'init [FILE]',
    group: 'Configure:',
    summary: 'write a small configuration with comments, and an API key',
    examples: [
      'gatehouse-certs init',
      'gatehouse-certs init /etc/gatehouse/cert-service/config.yaml',
    ],
    async run({ words: [file] }) {
      const { init } = await import('./init.ts')
      return init(file)
    },
  },
  {
    usage: 'migrate le-cert-server FILE',
    group: 'Configure:',
    summary: 'translate a configuration of le-cert-server',
    examples: ['gatehouse-certs migrate le-cert-server le-cert-server.yaml > config.yaml'],
    async run({ words: [file = ''], process }) {
      const { migrate, printMigrated } = await import('@gatehouse/migrate')
      return printMigrated(await migrate('le-cert-server', file, load), process)
    },
  },
  ...clientCommands(actionFor),
  {
    usage: 'backup FILE',
    group: 'Upkeep, also while the service runs:',
    readsConfig: true,
    summary: 'copy the store into a new file',
    examples: ['gatehouse-certs backup /backups/certs.db'],
    async run({ config, progress, words: [file = ''] }) {
      const { storage } = (await config()).value
      const { backup } = await import('@gatehouse/cert-store')
      await backup({ folder: folderOf(storage), file, say: progress.say })
      return `${file} holds a copy of the store; keep ${storage.masterKeyFile} in another place\n`
    },
  },
  {
    usage: 'audit',
    group: 'Upkeep, also while the service runs:',
    readsConfig: true,
    summary: 'list who got, renewed or revoked a certificate, and who was refused, the newest last',
    options: { ...COMMON_OPTIONS.since, ...COMMON_OPTIONS.until, ...COMMON_OPTIONS.json },
    examples: ['gatehouse-certs audit --since 7d'],
    async run({ config, options, progress }) {
      const { storage } = (await config()).value
      const { listAudit } = await import('./audit.ts')
      progress.say('reading the audit trail')
      return listAudit(storage, options)
    },
  },
  {
    ...UPKEEP,
    usage: 'restore FILE',
    summary: 'put a backup into an empty data folder',
    options: {
      '--over STORE': 'the folder or file that it replaces, to take over what was taken back there',
      '--forget': 'restore without knowing that, with new keys for ACME clients',
    },
    examples: ['gatehouse-certs restore /backups/certs.db --over data.before'],
    async run({ config, options, progress, words: [file = ''] }) {
      const { storage, auth } = (await config()).value
      const { restore } = await import('@gatehouse/cert-store')
      const callers = auth.psk?.keys?.map(({ name }) => name) ?? []
      const { over, forget } = options
      const places = { folder: folderOf(storage), file, over, forget, callers }
      const { asOf, renewsKeys } = await restore({ ...places, say: progress.say })
      const keys = renewsKeys ? '; give ACME clients that register their new keys' : ''
      return `${storage.path} now holds the store of ${file}, as of ${asOf}${keys}\n`
    },
  },
  {
    ...UPKEEP,
    usage: 'move',
    summary: 'copy the store from its folder to a database, or back',
    options: { '--to TARGET': 'URL of the database, or a file with it; or a folder for the store' },
    examples: [
      'gatehouse-certs move --to /run/secrets/database-url',
      'gatehouse-certs move --to /var/lib/gatehouse/data',
    ],
    async run({ config, progress, options }) {
      const { storage } = (await config()).value
      const { move } = await import('./move.ts')
      return move(storage, options.to, progress.say)
    },
  },
  {
    ...UPKEEP,
    usage: 'rekey',
    summary: 'replace the master key',
    examples: ['gatehouse-certs rekey'],
    async run({ config, progress }) {
      const { storage } = (await config()).value
      progress.say('wrapping the keys of the store again')
      const { rekey } = await import('./keys.ts')
      await rekey(storage)
      const copies =
        storage.url === undefined ? '' : '; copy it to each replica before its next start'
      return `${storage.masterKeyFile} is a new key${copies}; older backups still need the old one\n`
    },
  },
  {
    ...UPKEEP,
    usage: 'ca detach-root FILE',
    summary: 'move the private key of the root into a file, to be kept offline',
    examples: ['gatehouse-certs ca detach-root /media/usb/root.key'],
    async run({ config, progress, words: [file = ''] }) {
      const { storage } = (await config()).value
      progress.say('opening the store')
      const { detachRoot } = await import('./keys.ts')
      await detachRoot({ ...storage, file })
      return `${file} now holds the private key of the root; the store no longer does\n`
    },
  },
  {
    ...UPKEEP,
    usage: 'acme rollover ISSUER',
    summary: 'replace the key of the ACME account of an issuer',
    examples: ['gatehouse-certs acme rollover letsencrypt'],
    async run({ config, progress, words: [name = ''] }) {
      const { storage, issuers } = (await config()).value
      progress.say(`waiting for the CA of ${name}`)
      const { rollover } = await import('./keys.ts')
      await rollover({ ...storage, issuers, name })
      return `the account of ${name} has a new key; the CA no longer accepts the old one\n`
    },
  },
]

function folderOf({ url, path }: CertServiceConfig['storage']): string {
  if (url === undefined) return path
  throw new UsageError('the store is a database: use pg_dump and pg_restore')
}

/** The program `gatehouse-certs`. What a command runs is imported with it. */
export const PROGRAM: ServiceProgram<CertServiceConfig> = {
  program: 'gatehouse-certs',
  name: 'cert-service',
  version: VERSION,
  summary: 'TLS certificates over HTTP, from an embedded private CA and from ACME CAs',
  serveOptions: { '--new': 'create a new store and CA for a master key that exists' },
  commands: COMMANDS,
  load,
  actionFor,
  usesTls: ({ server }) => !isPlain(server.tls),
  async recognise(text, file) {
    const { recognise } = await import('@gatehouse/migrate')
    return recognise('cert-service', text, file)
  },
  serve: async (options) => (await import('./serve.ts')).serve(options),
}
