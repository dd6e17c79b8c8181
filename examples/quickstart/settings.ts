import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit'

// Browsers know that every name below localhost is this machine.
export const DOMAIN = 'gatehouse.localhost'
const DEFAULT_FOLDER = join(import.meta.dirname, '../../.gatehouse')
const DEFAULT_PORTS = { GATEHOUSE_HTTPS_PORT: '8443', GATEHOUSE_PORT: '7401' }

/** Variables that name a port. */
export const PORT_NAMES = Object.keys(DEFAULT_PORTS) as (keyof typeof DEFAULT_PORTS)[]

export type Environment = Readonly<Record<string, string | undefined>>

/** Where everything of the quickstart is. */
export type Settings = ReturnType<typeof readSettings>

/** @throws Error that names the variable which is wrong */
export function readSettings(environment: Environment) {
  const folder = resolve(environment.GATEHOUSE_DIR ?? DEFAULT_FOLDER)
  const env = { ...DEFAULT_PORTS, ...environment, GATEHOUSE_DIR: folder }
  for (const name of PORT_NAMES)
    if (!/^[1-9]\d{0,4}$/.test(env[name])) throw new Error(`${name} is not the number of a port`)
  const authority = `${DOMAIN}:${env.GATEHOUSE_HTTPS_PORT}`
  return {
    /** For the configuration files, which refer to it. */
    env,
    folder,
    keyFile: join(folder, 'keys/api.key'),
    rootFile: join(folder, 'root.pem'),
    tlsFile: join(folder, `tls/${DOMAIN}.pem`),
    httpsPort: Number(env.GATEHOUSE_HTTPS_PORT),
    /** Of cert-service's API. */
    certs: `https://localhost:${env.GATEHOUSE_PORT}`,
    /** Host and port that all names behind the gateway end in. */
    authority,
    originOf: (name: string) => new URL(`https://${name}.${authority}`).origin,
  }
}

/** For keys and the like: nobody else may look into them. */
export function makeFolders({ folder }: Settings): void {
  for (const name of ['keys', 'tls']) makeFolder(join(folder, name))
}

/** What the file in `keys` holds, which is made at first: another one in each clone. */
export async function secret({ folder }: Settings, name: string): Promise<string> {
  const file = join(folder, 'keys', name)
  const fresh = randomBytes(32).toString('base64url')
  await writeFile(file, `${fresh}\n`, { mode: 0o600, flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
  return (await readFile(file, 'utf8')).trim()
}
