import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import type { Test } from 'tap'

const run = promisify(execFile)
const HERE = import.meta.dirname
/** Milliseconds after which a program hangs. Long, so that a busy machine fails no test. */
const PATIENCE = 60_000
/** What a client says that has made a connection on which no HTTP is spoken. */
const CONNECTED = 'connected'

/** A server on loopback, under its name. */
export interface TlsServer {
  readonly host: string
  readonly port: number
  /** `postgres`: TLS begins after a request of its own, and no HTTP is spoken. */
  readonly protocol: 'https' | 'postgres'
  readonly path?: string
}

/** Files in PEM. */
export interface TlsFiles {
  /** The roots to trust. */
  readonly roots: string
  /** The chain and the key that the client shows, if it shows one. */
  readonly certificate?: string
  readonly key?: string
}

/** A TLS library, by a program that checks chain and name, and resumes no session. */
export interface TlsClient {
  readonly name: string
  /** What it can do beside HTTPS. */
  readonly abilities: readonly ('postgres' | 'client certificates')[]
  /** Gives the status of the answer, `connected`, or what the client said when it failed. */
  ask(server: TlsServer, files: TlsFiles): Promise<string>
}

/** What came of a connection, by what its client said. */
export function outcomeOf(answer: string): 'accepted' | 'refused' {
  return answer === '200' || answer === CONNECTED ? 'accepted' : 'refused'
}

const EVERYTHING = ['postgres', 'client certificates'] as const

/** Where each program comes from. */
const PROGRAMS: Readonly<Record<string, string>> = {
  curl: 'curl',
  openssl: 'openssl',
  'gnutls-cli': 'gnutls-bin',
  tstclnt: 'libnss3-tools',
  certutil: 'libnss3-tools',
  java: 'openjdk-17-jdk-headless',
  python3: 'python3',
  go: 'Go',
}

/** Why not all clients can run here; false if they can. */
export function missingClient(): string | false {
  const missing = Object.keys(PROGRAMS).find((name) => spawnSync(name).error)
  return missing === undefined ? false : `needs ${missing} (${PROGRAMS[missing]})`
}

/**
 * Starts a client of each TLS library. Programs that live for one connection are started for each.
 *
 * @param env - variables of all of them
 */
export async function startTlsClients(
  t: Test,
  folder: string,
  env: NodeJS.ProcessEnv = {},
): Promise<readonly TlsClient[]> {
  const go = join(folder, 'client')
  await run('go', ['build', '-o', go, join(HERE, 'client.go')])
  const each =
    (ask: (server: TlsServer, files: TlsFiles, env: NodeJS.ProcessEnv) => Promise<string>) =>
    (server: TlsServer, files: TlsFiles) =>
      ask(server, files, env)
  const program = (command: string, ...args: readonly string[]) => ({
    abilities: EVERYTHING,
    ask: askProgram(t, command, args, env),
  })
  return [
    { name: 'OpenSSL', abilities: EVERYTHING, ask: each(askOpenSsl) },
    { name: 'Node', ...program(process.execPath, join(HERE, 'client.ts')) },
    { name: 'GnuTLS', abilities: EVERYTHING, ask: each(askGnuTls) },
    { name: 'NSS', abilities: [], ask: askNss(folder, env) },
    { name: 'Go', ...program(go) },
    { name: 'Java', ...program('java', join(HERE, 'Client.java')) },
    { name: 'Python', ...program('python3', join(HERE, 'client.py')) },
  ]
}

const requestOf = ({ host, path = '/' }: TlsServer) =>
  `GET ${path} HTTP/1.0\r\nHost: ${host}\r\n\r\n`

/** A program that runs as long as the test, and answers each line with one. */
function askProgram(
  t: Test,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): TlsClient['ask'] {
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  t.teardown(async () => {
    child.stdin.end()
    await exit
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let previous: Promise<unknown> = Promise.resolve()
  return ({ protocol, host, port, path = '/' }, { roots, certificate = '-', key = '-' }) => {
    const fields = [protocol, host, port, path, roots, certificate, key]
    const answer = previous.then(async () => {
      child.stdin.write(`${fields.join(' ')}\n`)
      const { value } = await lines.next()
      return value ?? `${command} has ended`
    })
    previous = answer
    return answer
  }
}

/** A program that connects once. It gets the request, and its input ends when the answer has begun. */
async function askOnce(
  command: string,
  args: readonly string[],
  server: TlsServer,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const child = spawn(command, args, { timeout: PATIENCE, env: { ...process.env, ...env } })
  const close = once(child, 'close')
  let [output, status] = ['', '']
  const read = (part: Buffer) => {
    output += part
    status ||= /^HTTP\/1\.[01] (\d{3})/m.exec(output)?.[1] ?? ''
    if (status !== '') child.stdin.end()
  }
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  // It may have ended before it reads.
  child.stdin.on('error', () => {})
  if (server.protocol === 'https') child.stdin.write(requestOf(server))
  else child.stdin.end()
  const [code] = await close
  if (status !== '') return status
  if (code === 0 && server.protocol === 'postgres') return CONNECTED
  return `${command} ended with ${code}: ${output.slice(-400)}`
}

/** curl, or where it does not speak the protocol, `openssl s_client`. */
async function askOpenSsl(
  server: TlsServer,
  files: TlsFiles,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const { host, port, protocol, path = '/' } = server
  const { roots, certificate, key } = files
  if (protocol === 'postgres') {
    const checks = ['-verify_return_error', '-verify_hostname', host, '-CAfile', roots]
    const target = ['-connect', `127.0.0.1:${port}`, '-servername', host, '-starttls', 'postgres']
    return askOnce('openssl', ['s_client', ...target, ...checks], server, env)
  }
  const clientFlags = certificate && key ? ['--cert', certificate, '--key', key] : []
  const target = ['--connect-to', '::127.0.0.1:', `https://${host}:${port}${path}`]
  const outputFlags = ['-sS', '-o', '/dev/null', '-w', '%{http_code}']
  try {
    const args = [...outputFlags, '--cacert', roots, ...clientFlags, ...target]
    const options = { timeout: PATIENCE, env: { ...process.env, ...env } }
    return (await run('curl', args, options)).stdout
  } catch (error) {
    return (error as { stderr: string }).stderr
  }
}

function askGnuTls(
  server: TlsServer,
  { roots, certificate, key }: TlsFiles,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const { host, port, protocol } = server
  const clientFlags =
    certificate && key ? ['--x509certfile', certificate, '--x509keyfile', key] : []
  const names = ['--sni-hostname', host, '--verify-hostname', host]
  const starttls = protocol === 'postgres' ? ['--starttls-proto', 'postgres'] : []
  const target = ['--port', String(port), '127.0.0.1']
  const args = ['--x509cafile', roots, ...names, ...clientFlags, ...starttls, ...target]
  return askOnce('gnutls-cli', args, server, env)
}

/** NSS trusts what is in a database, so each file of roots has one. */
function askNss(folder: string, env: NodeJS.ProcessEnv): TlsClient['ask'] {
  const databases = new Map<string, Promise<string>>()
  return async (server, { roots }) => {
    const database = databases.get(roots) ?? createNssDatabase(folder, databases.size, roots)
    databases.set(roots, database)
    const target = ['-h', '127.0.0.1', '-p', String(server.port), '-a', server.host]
    return askOnce('tstclnt', [...target, '-d', await database], server, env)
  }
}

async function createNssDatabase(folder: string, index: number, roots: string): Promise<string> {
  const path = join(folder, `nss-${index}`)
  const database = `sql:${path}`
  mkdirSync(path)
  await run('certutil', ['-N', '--empty-password', '-d', database])
  const pems = readFileSync(roots, 'utf8').split(/(?<=-----END CERTIFICATE-----\n)/)
  for (const [position, pem] of pems.entries()) {
    const file = join(path, `${position}.pem`)
    writeFileSync(file, pem)
    await run('certutil', ['-A', '-n', `root ${position}`, '-t', 'C,,', '-i', file, '-d', database])
  }
  return database
}
