import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { NetError, parseEndpointUrl, parseOrigin, requireCertificates } from '@gatehouse/net'
import type { TSchema } from 'typebox'
import { Errors } from 'typebox/schema'
import { AuthError } from './errors.ts'
import type { AccessTokenDemands } from './jwt/access-token.ts'
import type { IssuerConnection } from './oidc/jwks-client.ts'
import {
  type AssertionOptions,
  AUTH_OPTIONS_RULES,
  type AuthOptions,
  AuthOptionsSchema,
  type NamedKeyOptions,
  type TokenOptions,
} from './options.ts'

/** A fault in the options. */
export interface AuthOptionsFault {
  /** JSON pointer into the options. */
  readonly path: string
  readonly message: string
  /** Whether it is that a file is not there. */
  readonly absent?: boolean
}

export interface PskKey
  extends Pick<NamedKeyOptions, 'name' | 'formerNames' | 'scopes' | 'domains'> {
  /** SHA-256 of each of its values in hex, the newest first. */
  readonly digests: readonly string[]
}

type IssuerSettings = ReturnType<typeof readIssuer>[number]

/** The options in one layout, with the contents of their files, for the accepted methods only. */
export interface Settings {
  readonly keys: readonly PskKey[]
  readonly issuers: readonly IssuerSettings[]
  readonly assertion: ReturnType<typeof readAssertion> | undefined
}

type AddFault = (path: string, message: string, absent?: boolean) => undefined

/** Lists all faults in the options and in the files that they name; empty if there are none. */
export function checkAuthOptions(options: AuthOptions): readonly AuthOptionsFault[] {
  return parse(options).faults
}

/**
 * Checks the options and reads the files that they name.
 *
 * @param hasVerifier - whether the application verifies Bearer tokens itself
 * @throws AuthError AUTH_OPTIONS_INVALID, listing all faults
 */
export function readSettings(options: AuthOptions, hasVerifier = false): Settings {
  const { settings, faults } = parse(options, hasVerifier)
  if (faults.length === 0) return settings
  throw new AuthError('AUTH_OPTIONS_INVALID', {
    message: `Authentication options are not valid: ${listFaults(faults)}`,
  })
}

export function listFaults(faults: readonly AuthOptionsFault[]): string {
  return faults.map(({ path, message }) => `${path || '/'} ${message}`).join('; ')
}

function parse(
  options: AuthOptions,
  hasVerifier = false,
): { settings: Settings; faults: AuthOptionsFault[] } {
  const faults = faultsOf(AuthOptionsSchema, options)
  if (faults.length > 0)
    return { settings: { keys: [], issuers: [], assertion: undefined }, faults }
  const fault: AddFault = (path, message, absent) =>
    void faults.push({ path, message, ...(absent && { absent }) })

  const keys = readKeys(options, fault)
  const issuers = readIssuers(options, fault)
  const assertion = options.assertion && readAssertion(options.assertion, fault)
  const { method } = options
  const configured = { psk: keys.length > 0, jwt: issuers.length > 0 || hasVerifier }
  if (hasVerifier && issuers.length > 0)
    fault('/bearer', 'cannot be given together with jwt: both are for Bearer tokens')
  if (faults.length === 0 && method && !configured[method])
    fault('/method', `names ${method}, which is not configured`)
  if (faults.length === 0 && !configured.psk && !configured.jwt && !assertion)
    fault('', 'configures nobody: give psk, jwt or assertion')
  const settings = {
    keys: method === 'jwt' ? [] : keys,
    issuers: method === 'psk' ? [] : issuers,
    assertion,
  }
  return { settings, faults }
}

/** The faults in the shape of a value. */
export function faultsOf(schema: TSchema, value: unknown): AuthOptionsFault[] {
  const [, errors] = Errors(schema, value)
  return errors
    .filter(({ schemaPath }) => !/\/anyOf\/\d+$/.test(schemaPath))
    .filter(({ keyword }) => keyword !== 'additionalProperties')
    .map(({ keyword, instancePath, message }) => ({
      path: instancePath,
      message: keyword === 'boolean' ? 'is not a known option' : message,
    }))
}

function readKeys({ psk }: AuthOptions, fault: AddFault): PskKey[] {
  if (!psk) return []
  if (!checkTogether(AUTH_OPTIONS_RULES.psk, psk, '/psk', fault)) return []
  const { keys, ...single } = psk
  if (!keys) return readKey({ name: 'default', ...single }, '/psk', fault)

  const read = keys.map((key, i) => readKey(key, `/psk/keys/${i}`, fault))
  const values = read.flatMap((rows, i) =>
    rows.flatMap(({ digests }) => digests.map((digest) => ({ i, digest }))),
  )
  const names = keys.flatMap(({ name, formerNames = [] }, i) =>
    [name, ...formerNames].map((text, n) => ({
      text,
      path: `${i}/${n ? `formerNames/${n - 1}` : 'name'}`,
    })),
  )
  for (const n of repeated(names, ({ text }) => text))
    fault(`/psk/keys/${names[n]?.path}`, 'is taken')
  for (const n of repeated(values, ({ digest }) => digest))
    fault(`/psk/keys/${values[n]?.i}`, 'repeats a key')
  return read.flat()
}

function readKey(options: NamedKeyOptions, path: string, fault: AddFault): PskKey[] {
  const { key, keyFile, keyFiles, keySha256, ...rest } = options
  if (!checkTogether(AUTH_OPTIONS_RULES.key, options, path, fault)) return []
  if (keySha256 !== undefined) return [{ ...rest, digests: [keySha256] }]
  if (key !== undefined) return [{ ...rest, digests: [hash('sha256', key, 'hex')] }]
  const digests = keyFiles
    ? keyFiles.flatMap((file, n) => readKeyFile(file, `${path}/keyFiles/${n}`, fault))
    : readKeyFile(keyFile, `${path}/keyFile`, fault)
  return digests.length > 0 ? [{ ...rest, digests }] : []
}

/** The SHA-256 of the key in a file; nothing after a fault. */
function readKeyFile(file: string | undefined, path: string, fault: AddFault): string[] {
  const text = readText(file, path, fault)?.replace(/\r?\n$/, '')
  if (text === undefined) return []
  if (!/^[!-~]{16,1024}$/.test(text))
    fault(path, 'must hold 16 to 1,024 visible ASCII characters without spaces')
  return [hash('sha256', text, 'hex')]
}

function readIssuers(options: AuthOptions, fault: AddFault): IssuerSettings[] {
  checkTogether(AUTH_OPTIONS_RULES.options, options, '', fault)
  const { jwt } = options
  if (!jwt) return readIssuer(options, '', fault)
  checkTogether(AUTH_OPTIONS_RULES.jwt, jwt, '/jwt', fault)
  const { issuers } = jwt
  if (!issuers) return readIssuer(jwt, '/jwt', fault)

  const read = issuers.flatMap((issuer, i) => readIssuer(issuer, `/jwt/issuers/${i}`, fault))
  for (const i of repeated(issuers, ({ issuerUrl }) => issuerUrl))
    fault(`/jwt/issuers/${i}/issuerUrl`, 'is configured twice')
  return read
}

function readIssuer(options: Omit<TokenOptions, 'issuers'>, path: string, fault: AddFault) {
  const { issuerUrl, audience, requiredScopes = [], requireAccessTokenType = false } = options
  const connection = readConnection(options, path, fault)
  if (issuerUrl === undefined || audience === undefined) return []
  const { maxTokenLifetime } = options
  const demands: AccessTokenDemands = {
    audience: [audience].flat(),
    requiredScopes,
    requireAccessTokenType,
    maxTokenLifetime,
  }
  return [{ connection: { ...connection, issuerUrl }, demands }]
}

function readAssertion(options: AssertionOptions, fault: AddFault) {
  const { audience, header = 'X-Gatehouse-Assertion' } = options
  const origins = [audience].flat().map((text) => {
    const origin = parseOrigin(text)
    if (!origin)
      fault('/assertion/audience', `${JSON.stringify(text)} is no origin: ${ORIGIN_LIKE}`)
    return origin ?? text
  })
  const connection = readConnection(options, '/assertion', fault)
  if (options.issuerUrl.endsWith('/'))
    fault('/assertion/issuerUrl', 'must not end with a slash: the URL of a portal has none')
  // forward-auth writes URLs without the default port.
  const issuerUrl = options.issuerUrl.replace(
    /^https?:\/\/[^/]+/i,
    (text) => parseOrigin(text) ?? text,
  )
  return {
    connection: { ...connection, issuerUrl },
    audience: origins,
    header: header.toLowerCase(),
  }
}

const ORIGIN_LIKE = 'write it as https://app.example.com, without a path or slash'

function readConnection(
  options: Omit<TokenOptions, 'issuers' | 'audience'>,
  path: string,
  fault: AddFault,
): Omit<IssuerConnection, 'issuerUrl'> {
  const { issuerUrl, jwksUrl, caFile, tokenFile, allowHttp = false } = options
  if (issuerUrl !== undefined) checkUrl(issuerUrl, `${path}/issuerUrl`, allowHttp, fault)
  if (issuerUrl?.includes('?')) fault(`${path}/issuerUrl`, 'must not hold a query')
  if (issuerUrl && /\/\.well-known(\/|$)/.test(issuerUrl))
    fault(`${path}/issuerUrl`, 'must end before /.well-known')
  if (jwksUrl !== undefined) checkUrl(jwksUrl, `${path}/jwksUrl`, allowHttp, fault)
  const ca = caFile === undefined ? undefined : readCa(caFile, `${path}/caFile`, fault)
  return { jwksUrl, ca, tokenFile, allowHttp }
}

function checkUrl(url: string, path: string, allowHttp: boolean, fault: AddFault): void {
  try {
    parseEndpointUrl(url, { allowHttp })
  } catch (error) {
    if (!(error instanceof NetError)) throw error
    fault(path, `is no usable URL: ${error.message}`)
  }
}

function readCa(file: string, path: string, fault: AddFault): string | undefined {
  const pem = readText(file, path, fault)
  if (pem === undefined) return undefined
  try {
    requireCertificates(pem)
    return pem
  } catch (error) {
    return fault(path, `names a file that ${(error as Error).message}`)
  }
}

function readText(file: string | undefined, path: string, fault: AddFault): string | undefined {
  try {
    return readFileSync(file ?? '', 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return fault(path, `names a file that cannot be read (${code})`, code === 'ENOENT')
  }
}

interface MemberRules {
  readonly exactlyOne?: readonly (readonly string[])[]
  readonly needs?: Readonly<Record<string, readonly string[]>>
  readonly excludes?: Readonly<Record<string, readonly string[]>>
}

/** Checks which options are given together. Returns whether each is given in exactly one of its forms. */
function checkTogether(
  { exactlyOne = [], needs = {}, excludes = {} }: MemberRules,
  options: object,
  path: string,
  fault: AddFault,
): boolean {
  const names = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : name,
  )
  const isGiven = (name: string) => names.includes(name)
  const unclear = exactlyOne.filter((forms) => forms.filter(isGiven).length !== 1)
  for (const forms of unclear) fault(path, `needs exactly one of ${forms.join(', ')}`)
  const needed = new Set(names.flatMap((name) => needs[name] ?? []))
  for (const name of needed) if (!isGiven(name)) fault(`${path}/${name}`, 'is missing')
  for (const name of names)
    for (const other of excludes[name]?.filter(isGiven) ?? [])
      fault(`${path}/${other}`, `is given together with ${name}: keep one`)
  return unclear.length === 0
}

function repeated<T>(items: readonly T[], key: (item: T) => string): number[] {
  const keys = items.map(key)
  return [...keys.keys()].filter((i) => keys.indexOf(keys[i] ?? '') < i)
}
