// What the services that make secrets have in common.
import { randomBytes } from 'node:crypto'
import { existsSync, renameSync, writeFileSync } from 'node:fs'

process.on('uncaughtException', ({ message }) => {
  process.stderr.write(`make-secrets: ${message}\n`)
  process.exit(1)
})

export function randomSecret(encoding = 'base64url') {
  return randomBytes(32).toString(encoding)
}

/** Creates a file unless it exists: a secret that is in use never changes. */
export function createSecret(file, text = randomSecret()) {
  if (existsSync(file)) return
  writeFileSync(`${file}.new`, `${text}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
}
