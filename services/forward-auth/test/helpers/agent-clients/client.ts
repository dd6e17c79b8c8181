import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import type { Stream } from 'node:stream'
import type { Test } from 'tap'

/** A client that runs as a program of its own. */
export interface AgentClient {
  /** With its version. */
  readonly title: string
  /** Why it is not tried here. */
  readonly lacks: string | false
  /** CI does not have it, so nobody misses it where it is not. */
  readonly isExtra?: boolean
  /** Whether it can have a document; else it registers itself. */
  readonly hasDocument: boolean
  /** What it asks the person for, first and when a tool needs more. Clients of older versions say no tool, so they need all. */
  readonly scopes: readonly string[]
  /** The same where Gatehouse reads what the body calls. One that asks for no more then never gets it. */
  readonly scopesByBody: readonly string[]
  start(t: Test, surroundings: Surroundings): Promise<AgentSession>
}

export interface Surroundings {
  /** Of the server: all that it knows. */
  readonly url: string
  /** The URL of its client ID metadata document. */
  readonly document?: string
  /** Where the proxy listens that has all hosts below example.com, and the certificate that it is trusted by. */
  readonly port: number
  readonly ca: string
  readonly folder: string
  /** A person who goes to a URL: the URL to which they come back. */
  readonly visit: (url: string) => Promise<URL>
}

interface AgentSession {
  /** Calls a tool: the text of its answer. */
  call(name: string): Promise<string>
}

/** What clients ask for that ask again when a tool needs more, and what others do. */
export const BY_TOOL = ['notes:read', 'notes:read notes:write']
export const AT_ONCE = ['notes:read notes:write']

/** The folder of what `scripts/agent-clients.sh` makes. */
const MADE = process.env.AGENT_CLIENTS

/** A file that was made, and why it is not there. */
export function made(name: string): { readonly file: string; readonly lacks: string | false } {
  if (MADE === undefined) return { file: name, lacks: '$AGENT_CLIENTS names no folder' }
  const file = join(MADE, name)
  return { file, lacks: !existsSync(file) && `${file} is not there` }
}

/** What a program says, while a person goes wherever it tells them to go. */
export function follow(messages: Stream, told: RegExp, visit: Surroundings['visit']): () => string {
  let said = ''
  let visited = 0
  messages.on('data', (chunk) => {
    said += chunk
    const targets = [...said.matchAll(told)].slice(visited)
    visited += targets.length
    for (const [, target = ''] of targets) visit(target).catch((error) => (said += error))
  })
  return () => said
}

/** What a program sees: the hosts are behind a proxy of HTTP, and their CA is one more. */
export async function environmentOf(t: Test, { port, ca, folder }: Surroundings) {
  const root = join(folder, 'root.pem')
  writeFileSync(root, ca)
  return {
    PATH: `${process.env.PATH}`,
    HOME: folder,
    // Nothing opens a browser.
    BROWSER: 'true',
    HTTPS_PROXY: await startTunnel(t, port),
    SSL_CERT_FILE: root,
    NODE_EXTRA_CA_CERTS: root,
  }
}

/** A proxy of HTTP through which all hosts are at one port. */
async function startTunnel(t: Test, port: number): Promise<string> {
  const server = createServer().on('connect', (_request, client, head) => {
    const target = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      target.write(head)
      client.pipe(target).pipe(client)
    })
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
    t.teardown(() => target.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
