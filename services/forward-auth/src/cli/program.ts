import {
  printMigrated,
  recognise,
  type ServiceCommand,
  type ServiceProgram,
  systemClock,
  UsageError,
} from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from '../config/load.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { ProgramName } from '../migrate/programs.ts'
import { VERSION } from '../version.ts'
import { describeRedirectUris } from './redirect-uris.ts'

type Command = ServiceCommand<ForwardAuthConfig>

const LOOK = { group: 'Look into it:', readsConfig: true } as const

const init: Command = {
  usage: 'init [FILE]',
  group: 'Configure:',
  summary: 'write a small configuration with comments',
  options: { '--domain DOMAIN': 'the domain of your apps; example.com if it is left out' },
  examples: ['gatehouse-auth init --domain example.com'],
  async run({ words: [file], options }) {
    const { init } = await import('./init.ts')
    return init(file, options.domain)
  },
}

const migrateFrom = (name: ProgramName, file: string): Command => ({
  usage: `migrate ${name} FILE`,
  group: 'Configure:',
  summary: `print the configuration for that of ${name}`,
  examples: [`gatehouse-auth migrate ${name} ${file} > config.yaml`],
  async run({ words: [file = ''], process }) {
    const { migrate } = await import('./migrate.ts')
    return printMigrated(await migrate(name, file), process)
  },
})

const audit: Command = {
  ...LOOK,
  usage: 'audit',
  summary: 'list who signed in and out, and who was refused',
  options: {
    '--since SPAN': 'how far to look back; 24h if it is left out',
    '--portal NAME': 'events of this portal',
    '--person ID': 'events of this person, such as corp:ada or ada',
    '--json': 'JSON lines, as when the output is not a terminal',
  },
  examples: ['gatehouse-auth audit --since 7d --person corp:ada'],
  async run({ config, options, progress, process: { stdout } }) {
    const { since = '24h', portal, person } = options
    const { storage } = (await config()).value
    const { listAudit, readSince } = await import('./audit.ts')
    const { readAudit } = await import('../store/open.ts')
    progress.say('reading the audit trail')
    const asJson = options.json === true || !stdout.isTTY
    const start = readSince(since, systemClock.now())
    return listAudit({ rows: readAudit(storage, start), portal, person, asJson })
  },
}

const explain: Command = {
  ...LOOK,
  usage: 'explain',
  summary: 'say what a check decides about a request, and why',
  options: {
    '--host HOST': 'the host of the app',
    '--path PATH': 'path and query; / if it is left out',
    '--method NAME': 'the method; GET if it is left out',
    '--from ADDRESS': 'the address of the client',
    '--portal NAME': 'the portal that is asked',
    '--policy NAME': 'the policy that the proxy names',
    '--if CONDITION': 'the condition that the proxy gives',
    '--as FILE': 'the claims of a person as JSON; nobody if it is left out',
    '--provider NAME': 'the provider of that person; the first one if it is left out',
  },
  examples: ['gatehouse-auth explain --host app.example.com --policy admins --as ada.json'],
  async run({ config, options }) {
    const { host, path = '/', method = 'GET', portal, policy, from, provider } = options
    if (host === undefined) throw new UsageError('explain needs --host, the host of the app')
    const { explain } = await import('./explain.ts')
    return explain((await config()).value, {
      host,
      path,
      method,
      portal,
      policy,
      from,
      provider,
      condition: options.if,
      claimsFile: options.as,
      now: systemClock.now(),
    })
  },
}

const doctor: Command = {
  ...LOOK,
  usage: 'doctor URL',
  summary: 'ask an app through its proxy, and name what is wrong with the proxy',
  options: {
    '--portal NAME': 'the portal that is asked',
    '--proxy NAME': 'nginx, caddy, traefik, envoy or haproxy, where it is not seen',
    '--resolve ADDR': 'connect to this address, such as 127.0.0.1:8443',
    '--ca FILE': 'CA certificates of the proxy, in PEM',
    '--insecure': 'accept any certificate of the proxy',
    '--as FILE': 'sign in with these claims, at an app that answers with the headers that it gets',
  },
  examples: ['gatehouse-auth doctor https://app.example.com'],
  async run({ config, progress, words: [url = ''], options }) {
    const { ca: caFile, as: claimsFile, insecure = false, config: _config, ...rest } = options
    progress.say(`asking ${url}`)
    const { doctor } = await import('./doctor.ts')
    return doctor((await config()).value, { url, ...rest, caFile, claimsFile, insecure })
  },
}

/** The program `gatehouse-auth`. What a command runs is imported with it. */
export const PROGRAM: ServiceProgram<ForwardAuthConfig> = {
  program: 'gatehouse-auth',
  name: 'forward-auth',
  version: VERSION,
  summary: 'single sign-on for what a reverse proxy serves',
  commands: [
    init,
    migrateFrom('traefik-forward-auth', 'traefik-forward-auth.yaml'),
    migrateFrom('oauth2-proxy', 'oauth2-proxy.cfg'),
    audit,
    explain,
    doctor,
  ],
  load: loadForwardAuthConfig,
  usesTls: ({ server }) => server.tls !== undefined,
  describe: describeRedirectUris,
  async recognise(text, file) {
    const { PROGRAMS } = await import('../migrate/programs.ts')
    return recognise(PROGRAMS, text, file)
  },
  serve: async (options) => (await import('./serve.ts')).serve(options),
}
