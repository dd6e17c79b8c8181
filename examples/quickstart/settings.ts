import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit/files'

// Browsers resolve every name below localhost to this machine.
export const DOMAIN = 'gatehouse.localhost'
const DEFAULT_FOLDER = join(import.meta.dirname, '../../.gatehouse')
const DEFAULT_PORTS = { GATEHOUSE_HTTPS_PORT: '8443', GATEHOUSE_PORT: '7401' }

/** Variables with port numbers. */
export const PORT_NAMES = Object.keys(DEFAULT_PORTS) as (keyof typeof DEFAULT_PORTS)[]

export type Environment = Readonly<Record<string, string | undefined>>

/** Ports, origins and files of the quickstart. */
export type Settings = ReturnType<typeof readSettings>

/** @throws Error that names the invalid variable */
export function readSettings(environment: Environment) {
  const folder = resolve(environment.GATEHOUSE_DIR ?? DEFAULT_FOLDER)
  const env = { ...DEFAULT_PORTS, ...environment, GATEHOUSE_DIR: folder }
  for (const name of PORT_NAMES)
    if (!/^[1-9]\d{0,4}$/.test(env[name])) throw new Error(`${name} is not a port number`)
  const authority = `${DOMAIN}:${env.GATEHOUSE_HTTPS_PORT}`
  return {
    /** The variables that the configuration files refer to. */
    env: env as Environment,
    folder,
    keyFile: join(folder, 'keys/api.key'),
    rootFile: join(folder, 'root.pem'),
    tlsFile: join(folder, `tls/${DOMAIN}.pem`),
    httpsPort: Number(env.GATEHOUSE_HTTPS_PORT),
    /** Origin of the API of cert-service. */
    certs: `https://localhost:${env.GATEHOUSE_PORT}`,
    /** Host and port that every name behind the gateway ends in. */
    authority,
    originOf: (name: string) => new URL(`https://${name}.${authority}`).origin,
  }
}

/** Folders for secrets, which only their owner may read. */
export function makeFolders({ folder }: Settings): void {
  for (const name of ['keys', 'tls']) makeFolder(join(folder, name))
}

/** Reads a secret in `keys`, and creates it first if need be. Each clone has its own. */
export async function secret({ folder }: Settings, name: string): Promise<string> {
  const file = join(folder, 'keys', name)
  const fresh = randomBytes(32).toString('base64url')
  await writeFile(file, `${fresh}\n`, { mode: 0o600, flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
  return (await readFile(file, 'utf8')).trim()
}
