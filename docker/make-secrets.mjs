// make-secrets.mjs FILE…: creates the secrets that do not exist yet.
import { randomBytes } from 'node:crypto'
import { existsSync, renameSync, writeFileSync } from 'node:fs'

process.on('uncaughtException', ({ message }) => {
  process.stderr.write(`make-secrets: ${message}\n`)
  process.exit(1)
})

for (const file of process.argv.slice(2).filter((file) => !existsSync(file))) {
  const secret = randomBytes(32).toString('base64url')
  writeFileSync(`${file}.new`, `${secret}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
}
