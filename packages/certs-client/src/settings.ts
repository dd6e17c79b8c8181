import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { NetError, parseEndpointUrl, parseHost } from '@gatehouse/net'
import { type Name, PkiError, type Profile, parseClientName, parseName } from '@gatehouse/pki'
import { readChoice, UsageError } from '@gatehouse/service-kit/program'
import { PROTOCOLS, parsePort } from '@gatehouse/tls-probe'
import type { Secret, Source } from './credentials.ts'
import type { Owner } from './folder.ts'
import type { ProbeHost } from './served.ts'

const MAX_NAMES = 100
const DEFAULT_URL = 'https://localhost:7401'

/** The options with a text, each of which a variable stands in for, such as `GATEHOUSE_TOKEN_URL`. */
const TEXTS = [
  'url',
  'ca',
  'keyFile',
  'tokenFile',
  'clientId',
  'clientSecretFile',
  'tokenIssuer',
  'tokenUrl',
  'scope',
  'audience',
  'resource',
] as const

/** Values of options, by their names in camel case. */
export type OptionValues<Name extends string, Value> = { readonly [_ in Name]?: Value | undefined }
export type Texts<Name extends string> = OptionValues<Name, string>

/** The options that every command of the client has. */
export interface ConnectionOptions extends Texts<(typeof TEXTS)[number]> {
  readonly githubActions?: boolean | undefined
}

type Env = NodeJS.ProcessEnv

export interface ServiceConnection {
  readonly url: URL
  /** A file with the roots to trust instead of the system's. */
  readonly caFile: string | undefined
  readonly source: Source
}

/** Reads where the service is and how to authenticate: from options, else from the environment. @throws UsageError */
export function readConnection(options: ConnectionOptions, env: Env): ServiceConnection {
  const input: ConnectionOptions = Object.fromEntries(
    TEXTS.map((name) => [name, options[name] ?? (env[variableOf(name)] || undefined)]),
  )
  return {
    url: readUrl('--url', input.url ?? DEFAULT_URL),
    caFile: input.ca,
    source: readSource(wayOf(options, env), input, env),
  }
}

const variableOf = (name: string) => `GATEHOUSE_${kebab(name).replaceAll('-', '_').toUpperCase()}`

/** The name of an option as it is typed. */
export function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** Reads the URL of a server. @throws UsageError */
export function readUrl(option: string, text: string): URL {
  try {
    return parseEndpointUrl(text)
  } catch (error) {
    if (error instanceof NetError) throw new UsageError(`${option}: ${error.message}`)
    throw error
  }
}

/** The ways to authenticate, by the option that asks for each. */
const WAYS = {
  keyFile: '--key-file or GATEHOUSE_KEY_FILE or GATEHOUSE_KEY',
  tokenFile: '--token-file or GATEHOUSE_TOKEN_FILE or GATEHOUSE_TOKEN',
  githubActions: '--github-actions',
  clientId: '--client-id or GATEHOUSE_CLIENT_ID',
} as const
type Way = keyof typeof WAYS

/** Whether anything says how to authenticate, for what also works without a service. @throws UsageError */
export function hasCredentials(options: ConnectionOptions, env: Env): boolean {
  return wayOf(options, env) !== undefined
}

/** The way that the options ask for, else the environment. Neither may ask for two, even where the other counts. */
function wayOf(options: ConnectionOptions, env: NodeJS.ProcessEnv): Way | undefined {
  const byOption = chosen(options)
  const byEnv = chosen({
    keyFile: env.GATEHOUSE_KEY_FILE || env.GATEHOUSE_KEY,
    tokenFile: env.GATEHOUSE_TOKEN_FILE || env.GATEHOUSE_TOKEN,
    clientId: env.GATEHOUSE_CLIENT_ID,
  })
  return byOption ?? byEnv
}

function chosen(input: ConnectionOptions): Way | undefined {
  const ways = (Object.keys(WAYS) as Way[]).filter((way) => input[way])
  if (ways.length < 2) return ways[0]
  const names = ways.map((way) => WAYS[way])
  throw new UsageError(`use only one way to authenticate: ${names.join('; ')}`)
}

function readSource(way: Way | undefined, input: ConnectionOptions, env: Env): Source {
  switch (way) {
    case 'keyFile':
      return { kind: 'key', key: secretOf(input.keyFile, env.GATEHOUSE_KEY) }
    case 'tokenFile':
      return { kind: 'token', token: secretOf(input.tokenFile, env.GATEHOUSE_TOKEN) }
    case 'githubActions':
      return readGithub(input, env)
    case 'clientId':
      return readClient(input, env)
    default:
      throw new UsageError(
        'no credentials: name the file of an API key by --key-file, or of a token by --token-file; ' +
          '--help has the other ways',
      )
  }
}

/** A file, else the variable itself. */
function secretOf(file: string | undefined, text = ''): Secret {
  return file === undefined ? { text } : { file }
}

function readGithub({ audience }: ConnectionOptions, env: NodeJS.ProcessEnv): Source {
  const { ACTIONS_ID_TOKEN_REQUEST_URL: url, ACTIONS_ID_TOKEN_REQUEST_TOKEN: token } = env
  if (!audience) throw new UsageError('--github-actions needs --audience')
  if (!url || !token)
    throw new UsageError('--github-actions needs a job with `permissions: { id-token: write }`')
  return { kind: 'github', url: readUrl('ACTIONS_ID_TOKEN_REQUEST_URL', url).href, token, audience }
}

function readClient(input: ConnectionOptions, env: NodeJS.ProcessEnv): Source {
  const { clientId = '', tokenIssuer, tokenUrl, scope, audience, resource } = input
  const clientSecret = secretOf(input.clientSecretFile, env.GATEHOUSE_CLIENT_SECRET)
  if ('text' in clientSecret && clientSecret.text === '')
    throw new UsageError('--client-id needs --client-secret-file')
  if (tokenIssuer === undefined && tokenUrl === undefined)
    throw new UsageError('--client-id needs --token-issuer or --token-url')
  return {
    kind: 'client',
    clientId,
    clientSecret,
    issuer: tokenIssuer && readUrl('--token-issuer', tokenIssuer).href,
    tokenUrl: tokenUrl && readUrl('--token-url', tokenUrl).href,
    scope,
    audience,
    resource,
  }
}

/** Reads the names of one certificate, without doubles. @throws UsageError */
export function readNames(texts: readonly string[], profile?: Profile): readonly Name[] {
  const parsed = texts.map((text) => readName(text, profile))
  const names = new Map(parsed.map((name) => [name.text, name]))
  if (names.size > MAX_NAMES) throw new UsageError(`a certificate has at most ${MAX_NAMES} names`)
  return [...names.values()]
}

/** Reads one name. @throws UsageError */
export function readName(text: string, profile?: Profile): Name {
  try {
    return (profile === 'client' ? parseClientName : parseName)(text)
  } catch (error) {
    if (error instanceof PkiError) throw new UsageError(error.message)
    throw error
  }
}

/** Reads the kind of certificates. @throws UsageError */
export function readProfile(text: string | undefined): Profile | undefined {
  return readChoice('--profile', text, ['server', 'client'])
}

/** Reads `:PORT` or `HOST:PORT`, either with a protocol behind it. @throws UsageError */
export function readProbe(text: string): ProbeHost {
  const [, name = '', port = ''] = /^([^:]*|\[[^\]]*\])(:[^:]*)$/.exec(text) ?? []
  const host = name === '' ? '' : parseHost(name)?.name
  const parsed = parsePort(port)
  if (host !== undefined && parsed) return { host, ...parsed }
  const protocols = PROTOCOLS.join(', ')
  throw new UsageError(
    `${text} is no port such as :443, app.example.com:443 or ':2525 smtp'; protocols are ${protocols}`,
  )
}

/** What the service takes for options, and how to say it. */
const FORMS = [
  ['issuer', /^[\w.-]{1,64}$/, 'the name of an issuer, such as ca'],
  ['ending', /^[1-9][0-9]{0,5}[smhd]$/, 'a duration such as 7d or 12h'],
  ['lifetime', /^[1-9][0-9]{0,5}[smhd]$/, 'a duration such as 6d or 12h'],
  ['spread', /^[1-9][0-9]{0,5}[smhd]$/, 'a duration such as 24h or 7d'],
  ['under', /^[0-9A-Fa-f:]{2,191}$/, 'a key identifier or SHA-256 in hexadecimal'],
] as const

/** Checks the options that have a form. @throws UsageError */
export function checkForms(options: Texts<(typeof FORMS)[number][0]>): void {
  for (const [name, pattern, form] of FORMS)
    if (options[name] !== undefined && !pattern.test(options[name]))
      throw new UsageError(`--${kebab(name)} is ${form}`)
}

/** Reads permissions in octal digits, of which none is for everybody. @throws UsageError */
export function readMode(text: string): number {
  const mode = /^[0-7]{3,4}$/.test(text) ? Number.parseInt(text, 8) : -1
  if (mode < 0 || mode > 0o777 || (mode & 0o400) === 0)
    throw new UsageError('--mode is three octal digits such as 600 or 640')
  if ((mode & 0o007) === 0) return mode
  throw new UsageError(
    `--mode ${text} would open the private key to every user: use --owner, and 640 for a group`,
  )
}

/** Reads `NAMESPACE/NAME`. @throws UsageError */
export function readSecretName(text: string): {
  readonly namespace: string
  readonly name: string
} {
  const [, namespace, name] =
    /^([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)$/.exec(
      text,
    ) ?? []
  if (namespace !== undefined && name !== undefined) return { namespace, name }
  throw new UsageError('--secret is NAMESPACE/NAME')
}

const run = promisify(execFile)

/** Looks up `USER`, `USER:GROUP` or `:GROUP`, by name or number. @throws UsageError */
export async function readOwner(text: string): Promise<Owner> {
  const [, user = '', group] = /^([^:\s]*)(?::([^:\s]+))?$/.exec(text) ?? []
  if (user === '' && group === undefined)
    throw new UsageError('--owner is USER, USER:GROUP or :GROUP')
  return {
    uid: user === '' ? -1 : await idOf('passwd', user),
    gid: group === undefined ? -1 : await idOf('group', group),
  }
}

/** Users and groups may come from a directory, which only getent knows. */
async function idOf(database: 'passwd' | 'group', name: string): Promise<number> {
  if (/^\d{1,9}$/.test(name)) return Number(name)
  const kind = database === 'passwd' ? 'user' : 'group'
  const { stdout } = await run('getent', [database, '--', name]).catch(({ code }) => {
    throw new UsageError(
      code === 'ENOENT'
        ? `--owner: this machine has no getent to look up ${name}; use numbers`
        : `--owner: there is no ${kind} called ${name}`,
    )
  })
  return Number(stdout.split(':')[2])
}
