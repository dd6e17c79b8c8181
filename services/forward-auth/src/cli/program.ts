import { systemClock } from '@gatehouse/service-kit/clock'
import {
  COMMON_OPTIONS,
  readTime,
  type ServiceCommand,
  type ServiceProgram,
  UsageError,
} from '@gatehouse/service-kit/program'
import { PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import { loadForwardAuthConfig } from '../config/load.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { ERRORS } from '../errors.ts'
import { VERSION } from '../version.ts'
import { describeConfig } from './describe.ts'

const ACTIONS: Readonly<Record<string, { readonly action: string }>> = ERRORS

type Command = ServiceCommand<ForwardAuthConfig>

/** Joins choices, such as `a, b or c`. */
const CHOICE = new Intl.ListFormat('en-GB', { type: 'disjunction' })

const LOOK = { group: 'Look into it:', readsConfig: true } as const

const init: Command = {
  usage: 'init [FILE]',
  group: 'Configure:',
  summary: 'write a small configuration with comments',
  options: { '--domain DOMAIN': 'the domain of your apps (default example.com)' },
  examples: ['gatehouse-auth init --domain example.com'],
  async run({ words: [file], options }) {
    const { init } = await import('./init.ts')
    return init(file, options.domain)
  },
}

const migrateFrom = (
  name: 'authelia' | 'oauth2-proxy' | 'traefik-forward-auth',
  file: string,
): Command => ({
  usage: `migrate ${name} FILE`,
  group: 'Configure:',
  summary: `translate a configuration of ${name}`,
  examples: [`gatehouse-auth migrate ${name} ${file} > config.yaml`],
  async run({ words: [file = ''], process }) {
    const { migrate, printMigrated } = await import('@gatehouse/migrate')
    return printMigrated(await migrate(name, file, loadForwardAuthConfig), process)
  },
})

/** Lists the audit trail: of the hour before `--at`, as refusals that repeat are one row, else since a time. */
const listTrail: (asStory: boolean) => Command['run'] =
  (asStory) =>
  async ({ config, options, progress }) => {
    const { since = '24h', at: moment, until = moment, config: _, ...query } = options
    const { storage } = (await config()).value
    const { listAudit } = await import('./audit.ts')
    const { readAudit } = await import('../store/open.ts')
    progress.say('reading the audit trail')
    const time = (name: string, text: string) => readTime(name, text, systemClock.now())
    const start = moment === undefined ? time('--since', since) : time('--at', moment) - 3_600_000
    const end = until && time('--until', until) + (moment === undefined ? 0 : 300_000)
    return listAudit({ rows: readAudit(storage, start, end), ...query, asStory })
  }

const PORTAL = { '--portal NAME': 'the portal' }
const PERSON = { '--person WHO': 'e-mail address, user name, full name, ada, or corp:ada' }
const REQUEST = { '--request ID': 'the request whose ID the page of an error shows' }
const HOST = 'the host of the app'
const TOOL = 'the tool that is called by MCP'
const CLAIMS = 'a person, by a file with their claims: ada.json, or corp:ada.json of this provider'
const dockerReader: Command = {
  usage: 'docker-reader DOMAIN [HOST...]',
  group: 'Run:',
  summary: 'tell Traefik which containers are apps below a domain; no app gets one of the hosts',
  examples: ['gatehouse-auth docker-reader lab.home.arpa auth.lab.home.arpa'],
  run: async ({ words: [domain = '', ...reserved] }) =>
    (await import('../docker/reader.ts')).runReader({ domain, reserved }),
}

const audit: Command = {
  ...LOOK,
  usage: 'audit',
  summary: 'list who signed in and out, who was refused, and what programs called, the newest last',
  options: {
    ...COMMON_OPTIONS.since,
    ...COMMON_OPTIONS.until,
    ...PORTAL,
    '--event NAME': 'events of this kind, such as access-refused',
    '--host HOST': HOST,
    ...PERSON,
    ...REQUEST,
    '--tool NAME': `${TOOL}; also a resource, prompt or method, and * is any text`,
    '--client ID': 'the client of agents; also its host',
    ...COMMON_OPTIONS.json,
  },
  examples: [
    'gatehouse-auth audit --since 7d --person corp:ada',
    "gatehouse-auth audit --since 7d --person ada --tool 'delete*'",
  ],
  run: listTrail(false),
}

const why: Command = {
  ...LOOK,
  usage: 'why',
  summary: 'say why people were refused, or who ended their sessions, the newest last',
  options: {
    ...PERSON,
    '--at TIME': 'about when: 10:03, or 2030-01-31T10:03 (default: the last 24 hours)',
    '--host HOST': HOST,
    ...REQUEST,
    ...COMMON_OPTIONS.json,
  },
  examples: ['gatehouse-auth why --person bob@example.com --at 10:03'],
  run: listTrail(true),
}

const sessions: Command = {
  ...LOOK,
  usage: 'sessions',
  summary: 'list who is signed in, or what a client may do for them, the newest last, and end that',
  options: {
    ...PORTAL,
    ...PERSON,
    '--client ID': 'the client of agents; what it has, in place of the sessions of people',
    '--end': 'end what is named; it is listed before',
    ...COMMON_OPTIONS.json,
  },
  examples: ['gatehouse-auth sessions --person ada@example.com --end'],
  async run({ config, options, progress }) {
    const { value } = await config()
    progress.say('reading the sessions')
    const { listSessions } = await import('./sessions.ts')
    return listSessions(value, options)
  },
}

const leave: Command = {
  ...LOOK,
  usage: 'leave PERSON',
  summary: 'end what a person has who leaves, and name what has to be ended elsewhere',
  options: {
    '--yes': 'do it; without it, say what would be ended',
    ...COMMON_OPTIONS.json,
  },
  examples: ['gatehouse-auth leave ada@example.com --yes --json > ada.json'],
  async run({ config, words: [person = ''], options, progress }) {
    const { value } = await config()
    progress.say('reading the sessions and the audit trail')
    const { leave } = await import('./leave.ts')
    return leave(value, person, options)
  },
}

const explain: Command = {
  ...LOOK,
  usage: 'explain',
  summary: 'say what a check decides about a request, and why',
  options: {
    '--host HOST': `${HOST}; behind http:// if it is asked without TLS`,
    '--path PATH': 'path and query (default /)',
    '--method NAME': 'the method (default GET)',
    '--tool NAME': TOOL,
    '--server URL': 'in place of one tool, all that this MCP server lists',
    '--arguments JSON': 'its arguments, at a resource with an `upstream`',
    '--from ADDRESS': 'the address of the client',
    ...PORTAL,
    '--policy NAME': 'the policy that the proxy names',
    '--if CONDITION': 'the condition that the proxy gives',
    '--as WHO': `${CLAIMS}; or a key: psk:reader (default: nobody)`,
  },
  examples: ['gatehouse-auth explain --host app.example.com --policy admins --as ada.json'],
  async run({ config, options }) {
    if (options.host === undefined)
      throw new UsageError('explain needs --host, the host of the app')
    const { explain } = await import('./explain.ts')
    return explain((await config()).value, options, systemClock.now())
  },
}

const doctor: Command = {
  ...LOOK,
  usage: 'doctor URL',
  summary: 'ask an app through its proxy, and name what is wrong with the proxy',
  options: {
    ...PORTAL,
    '--proxy NAME': `${CHOICE.format(PROXY_NAMES)}, if it is not recognized`,
    '--resolve ADDR': 'connect to this address, such as 127.0.0.1:8443',
    '--ca FILE': 'roots to trust, in PEM (default: those of the system)',
    '--insecure': 'accept any certificate of the proxy',
    '--as WHO': `${CLAIMS}; the app has to answer with the headers of its request`,
    '--tool NAME': `${TOOL}; asks the server at URL whether it runs this harmless one without arguments when headers name another`,
  },
  examples: ['gatehouse-auth doctor https://app.example.com'],
  async run({ config, progress, words: [url = ''], options }) {
    progress.say(`asking ${url}`)
    const { doctor } = await import('./doctor.ts')
    return doctor((await config()).value, { ...options, url })
  },
}

/** The program `gatehouse-auth`. What a command runs is imported with it. */
export const PROGRAM: ServiceProgram<ForwardAuthConfig> = {
  program: 'gatehouse-auth',
  name: 'forward-auth',
  version: VERSION,
  summary: 'single sign-on for the apps behind a reverse proxy',
  commands: [
    init,
    migrateFrom('traefik-forward-auth', 'traefik-forward-auth.yaml'),
    migrateFrom('oauth2-proxy', 'oauth2-proxy.cfg'),
    migrateFrom('authelia', 'configuration.yml'),
    dockerReader,
    audit,
    why,
    sessions,
    leave,
    explain,
    doctor,
  ],
  load: loadForwardAuthConfig,
  actionFor: (code) => ACTIONS[code]?.action,
  usesTls: ({ server }) => server.tls !== undefined,
  describe: describeConfig,
  async recognise(text, file) {
    const { recognise } = await import('@gatehouse/migrate')
    return recognise('forward-auth', text, file)
  },
  serve: async (options) => (await import('./serve.ts')).serve(options),
}
