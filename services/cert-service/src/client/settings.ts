import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { NetError, parseEndpointUrl } from '@gatehouse/net'
import { KEY_TYPES, type KeyType, type Name, PkiError, parseName } from '@gatehouse/pki'
import { UsageError } from '@gatehouse/service-kit'
import type { Secret, Source } from './credentials.ts'
import type { Owner } from './folder.ts'

const MAX_NAMES = 100
const DEFAULT_URL = 'https://localhost:7401'

/** The options that every command of the client has, by their names in camel case. */
export interface ConnectionOptions {
  readonly url?: string | undefined
  readonly ca?: string | undefined
  readonly keyFile?: string | undefined
  readonly tokenFile?: string | undefined
  readonly githubActions?: boolean | undefined
  readonly clientId?: string | undefined
  readonly clientSecretFile?: string | undefined
  readonly issuer?: string | undefined
  readonly tokenUrl?: string | undefined
  readonly scope?: string | undefined
  readonly audience?: string | undefined
  readonly resource?: string | undefined
}

export interface Connection {
  readonly url: URL
  /** A file with the roots to trust instead of the system's. */
  readonly caFile: string | undefined
  readonly source: Source
}

/**
 * Where the service is and how to authenticate: by options, else by variables of the environment.
 * @throws UsageError
 */
export function readConnection(options: ConnectionOptions, env: NodeJS.ProcessEnv): Connection {
  return {
    url: readUrl('--url', options.url ?? (env.GATEHOUSE_URL || DEFAULT_URL)),
    caFile: options.ca ?? (env.GATEHOUSE_CA || undefined),
    source: readSource(options, env),
  }
}

function readUrl(option: string, text: string): URL {
  try {
    return parseEndpointUrl(text)
  } catch (error) {
    if (error instanceof NetError) throw new UsageError(`${option}: ${error.message}`)
    throw error
  }
}

/** Each way to authenticate, with what says that it is meant. */
const WAYS = {
  key: ['--key-file', 'GATEHOUSE_KEY_FILE', 'GATEHOUSE_KEY'],
  token: ['--token-file', 'GATEHOUSE_TOKEN_FILE', 'GATEHOUSE_TOKEN'],
  github: ['--github-actions'],
  client: ['--client-id', 'GATEHOUSE_CLIENT_ID'],
} as const
type Way = keyof typeof WAYS

function readSource(options: ConnectionOptions, env: NodeJS.ProcessEnv): Source {
  const { keyFile, tokenFile, githubActions, clientId } = options
  const byOption = chosen({
    key: keyFile,
    token: tokenFile,
    github: githubActions,
    client: clientId,
  })
  const byEnv = chosen({
    key: env.GATEHOUSE_KEY_FILE || env.GATEHOUSE_KEY,
    token: env.GATEHOUSE_TOKEN_FILE || env.GATEHOUSE_TOKEN,
    github: undefined,
    client: env.GATEHOUSE_CLIENT_ID,
  })
  switch (byOption ?? byEnv) {
    case 'key':
      return { kind: 'key', key: secretOf(keyFile, env, 'GATEHOUSE_KEY') }
    case 'token':
      return { kind: 'token', token: secretOf(tokenFile, env, 'GATEHOUSE_TOKEN') }
    case 'github':
      return readGithub(options, env)
    case 'client':
      return readClient(options, env)
    default:
      throw new UsageError(
        'no credentials: name the file of an API key by --key-file, or of a token by --token-file; --help has the other ways',
      )
  }
}

function chosen(given: Readonly<Record<Way, unknown>>): Way | undefined {
  const ways = (Object.keys(given) as Way[]).filter((way) => given[way])
  if (ways.length < 2) return ways[0]
  const names = ways.map((way) => WAYS[way].join(' or '))
  throw new UsageError(`use only one way to authenticate: ${names.join('; ')}`)
}

/** By option or `NAME_FILE` a file, else the variable itself. */
function secretOf(file: string | undefined, env: NodeJS.ProcessEnv, name: string): Secret {
  const named = file ?? (env[`${name}_FILE`] || undefined)
  return named === undefined ? { text: env[name] ?? '' } : { file: named }
}

function readGithub({ audience: given }: ConnectionOptions, env: NodeJS.ProcessEnv): Source {
  const audience = given ?? env.GATEHOUSE_AUDIENCE
  const { ACTIONS_ID_TOKEN_REQUEST_URL: url, ACTIONS_ID_TOKEN_REQUEST_TOKEN: token } = env
  if (!audience) throw new UsageError('--github-actions needs --audience')
  if (!url || !token)
    throw new UsageError('--github-actions needs a job with `permissions: { id-token: write }`')
  return { kind: 'github', url: readUrl('ACTIONS_ID_TOKEN_REQUEST_URL', url).href, token, audience }
}

function readClient(options: ConnectionOptions, env: NodeJS.ProcessEnv): Source {
  const clientId = options.clientId ?? env.GATEHOUSE_CLIENT_ID ?? ''
  const clientSecret = secretOf(options.clientSecretFile, env, 'GATEHOUSE_CLIENT_SECRET')
  const issuer = options.issuer ?? (env.GATEHOUSE_ISSUER || undefined)
  const tokenUrl = options.tokenUrl ?? (env.GATEHOUSE_TOKEN_URL || undefined)
  if ('text' in clientSecret && clientSecret.text === '')
    throw new UsageError('--client-id needs --client-secret-file')
  if (issuer === undefined && tokenUrl === undefined)
    throw new UsageError('--client-id needs --issuer or --token-url')
  return {
    ...{ kind: 'client', clientId, clientSecret },
    issuer: issuer && readUrl('--issuer', issuer).href,
    tokenUrl: tokenUrl && readUrl('--token-url', tokenUrl).href,
    scope: options.scope ?? (env.GATEHOUSE_SCOPE || undefined),
    audience: options.audience ?? (env.GATEHOUSE_AUDIENCE || undefined),
    resource: options.resource ?? (env.GATEHOUSE_RESOURCE || undefined),
  }
}

/** The names of one certificate, without doubles. @throws UsageError */
export function readNames(texts: readonly string[]): readonly Name[] {
  const names = new Map(texts.map((text) => [readName(text).text, readName(text)]))
  if (names.size > MAX_NAMES) throw new UsageError(`a certificate has at most ${MAX_NAMES} names`)
  return [...names.values()]
}

/** @throws UsageError */
export function readName(text: string): Name {
  try {
    return parseName(text)
  } catch (error) {
    if (error instanceof PkiError) throw new UsageError(error.message)
    throw error
  }
}

/** @throws UsageError */
export function readKeyType(text: string | undefined): KeyType | undefined {
  if (text === undefined) return undefined
  const type = KEY_TYPES.find((one) => one === text)
  if (type) return type
  throw new UsageError(`--key-type is one of ${KEY_TYPES.join(', ')}`)
}

/** Permissions in octal digits, of which none is for everybody. @throws UsageError */
export function readMode(text: string): number {
  const mode = /^[0-7]{3,4}$/.test(text) ? Number.parseInt(text, 8) : -1
  if (mode < 0 || mode > 0o777 || (mode & 0o400) === 0)
    throw new UsageError('--mode is three octal digits such as 600 or 640')
  if ((mode & 0o007) === 0) return mode
  throw new UsageError(
    `--mode ${text} would open the private key to every user: use --owner, and 640 for a group`,
  )
}

/** `NAMESPACE/NAME`. @throws UsageError */
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

/** `USER`, `USER:GROUP` or `:GROUP`, by name or number. @throws UsageError */
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
