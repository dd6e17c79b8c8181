import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Dialect } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { HEADER_NAMES } from '../../../../packages/gate/src/header-names.ts'
import type { Certificate } from '../helpers/certificates.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/proxies')

/** What stands in an example, and what it becomes. */
export type Changes = readonly (readonly [from: string, to: string])[]
/** Those of each file of an example, by its name. */
type FileChanges = Readonly<Record<string, Changes>>

export type RequestHeaders = Record<string, string>

/** How one proxy asks whether `POST https://app.example.com/a/b?q=1` may pass. */
export interface Shape {
  readonly proxy: string
  readonly dialect: Dialect
  readonly method: string
  /** Behind the portal. */
  readonly path: string
  readonly headers: RequestHeaders
  /** The headers without which the check is refused, in lower case. */
  readonly needs: readonly string[]
}

/** Where a proxy is, and where it finds everything else. */
export interface Surroundings {
  /** Where it serves HTTPS. */
  readonly port: number
  /** For files of the proxy. */
  readonly folder: string
  readonly certificate: Certificate
  readonly gatehousePort: number
  /** Where Gatehouse listens for gRPC, if it does. */
  readonly grpcPort?: number | undefined
  readonly appPort: number
  /** Instead of example.com. */
  readonly domain?: string
  /** Whether it serves plain HTTP instead. */
  readonly isPlain?: boolean
  /** What else becomes of the files of an example, by name. */
  readonly changes?: FileChanges
}

/** Where proxies answer differently. */
export type Situation =
  | 'a check that a client makes itself'
  | 'a host that is not configured'
  | 'a host with a dot at the end'
  | 'a host in the target'
  | 'a condition in a header'
  | 'Connection that lists headers of a check'
  | 'Gatehouse is down'

/** A changed line of an example, and what the doctor says of it. */
type Mistake = readonly [title: string, changes: FileChanges, finding: RegExp]

/** A proxy that asks in one of its ways. */
export interface ProxyVariant {
  /** Starts it with its example. */
  readonly start: (t: Test, around: Surroundings) => Promise<void>
  /** The variable that names its program, where Debian has none; `.ci/run` gets it. */
  readonly variable?: string
  /** Its own status in a situation, if it is not that of most. */
  readonly answers?: Partial<Record<Situation, number>>
  /** Whether it drops headers with a name such as X_Forwarded_User. Others let the check refuse them. */
  readonly dropsSpellings?: boolean
  /** Whether it passes on bytes that are not ASCII. */
  readonly sendsBytes?: boolean
  /** Whether Gatehouse itself says what the app receives. */
  readonly isToldCookies?: boolean
  /** What sends calls at /mcp to the app after a check, where the resource has no `upstream`. */
  readonly withoutMcpProxy: FileChanges
  /** What passes Remote-User on to the app. */
  readonly passesRemote: FileChanges
}

/** What the tests know of a proxy. */
export interface ProxyUnderTest extends ProxyVariant {
  /** The exact requests by which it asks about `POST https://app.example.com/a/b?q=1`, by its documentation. */
  readonly shapes: readonly Shape[]
  /** The names of {@link PROXY_HEADERS} and others that lines of its example set and remove. */
  readonly lines: () => readonly [sets: readonly string[], removes: readonly string[]]
  readonly mistakes: readonly Mistake[]
  /** What hides calls of MCP from the check, and what the doctor says then. */
  readonly hidesCalls: readonly [changes: FileChanges, finding: RegExp]
  /** What its guide says to add where the app must not see the session. */
  readonly hidesSession?: () => FileChanges
  /** How it passes client certificates on, with its example of that. */
  readonly mtls: {
    readonly command: string
    readonly args: (file: string) => readonly string[]
    /** What its example has, and what makes it listen at a port. */
    readonly listen: (port: number) => readonly [from: string, to: string]
  }
}

/** An example with everything replaced that depends on the machine; what is not there is a fault. */
export function readExample(name: string, changes: Changes = []): string {
  return changes.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`${name} holds no ${JSON.stringify(from)}`)
      return text.replaceAll(from, to)
    },
    readFileSync(join(EXAMPLES, name), 'utf8'),
  )
}

/** Writes an example for a test, and one without TLS if need be: its certificates are named in comments then. */
export function write(
  { folder, changes, domain, isPlain }: Surroundings,
  name: string,
  own: Changes,
  plain: Changes = [],
): string {
  const file = join(folder, name)
  const text = readExample(name, [...(changes?.[name] ?? []), ...(isPlain ? plain : []), ...own])
  writeFileSync(file, domain ? text.replaceAll('example.com', domain) : text)
  return file
}

export function addresses({ gatehousePort, appPort }: Surroundings): Changes {
  return [
    ['127.0.0.1:4181', `127.0.0.1:${gatehousePort}`],
    ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
  ]
}

export function certificateFiles({ certificate }: Surroundings): Changes {
  return [
    ['/etc/ssl/example.com.crt', certificate.crt],
    ['/etc/ssl/example.com.key', certificate.key],
  ]
}

/** The headers that only a proxy may set. */
export const PROXY_HEADERS = [...HEADER_NAMES.read, ...HEADER_NAMES.believed]

/** Findings of the doctor that several proxies can have. */
export const FINDINGS = {
  cookieLost: /With 302, no client receives the cookie __Host-gatehouse-hop\.main\.[0-9a-f]+\./,
  pageCookieLost: /No client receives the cookies of the sign-in pages at auth\.example\.com/,
  pageCookieUnseen: /The sign-in pages at auth\.example\.com receive no Cookie/,
  navigationUnseen: /receives no sec-fetch-dest.*which tell a page from a call/,
} as const

/** A check that describes its request by `X-Forwarded-*`. */
export const forwardShape = (
  proxy: string,
  rest: Pick<Shape, 'dialect'> & Partial<Shape>,
  headers: RequestHeaders = {},
): Shape => ({
  proxy,
  method: 'GET',
  path: '',
  headers: {
    Host: 'auth.example.com',
    'X-Forwarded-Method': 'POST',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'app.example.com',
    'X-Forwarded-Uri': '/a/b?q=1',
    'X-Forwarded-For': '203.0.113.7',
    ...headers,
  },
  needs: ['x-forwarded-method', 'x-forwarded-proto', 'x-forwarded-host', 'x-forwarded-uri'],
  ...rest,
})
