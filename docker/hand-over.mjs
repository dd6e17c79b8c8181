// hand-over.mjs TEMPLATE KEY_FILE: copies the root of cert-service to the services that trust it, and
// writes the configuration of the proxy. It runs in the network of cert-service, which has loopback to itself.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { basename } from 'node:path'
import { text } from 'node:stream/consumers'

const ROOT_URL = 'https://127.0.0.1:7401/ca/root.pem'
const STATE = '/var/lib/gatehouse'
const [template, keyFile] = process.argv.slice(2)

process.on('uncaughtException', ({ message }) => {
  process.stderr.write(`hand-over: ${message}\n`)
  process.exit(1)
})

const response = await new Promise((resolve, reject) =>
  get(ROOT_URL, { rejectUnauthorized: false }, resolve).on('error', reject),
)
write(`${STATE}/trust/root.pem`, await text(response), 0o644)

const { GATEHOUSE_HTTPS_PORT } = process.env
const API_KEY = readFileSync(keyFile, 'utf8').trim()
const values = { GATEHOUSE_HTTPS_PORT, API_KEY }
const filled = readFileSync(template, 'utf8').replace(/\$\{(\w+)\}/g, (_, name) => values[name])
write(`${STATE}/proxy/${basename(template)}`, filled, 0o600)

/** Replaces the file as a whole, because a running program may read it. */
function write(file, content, mode) {
  writeFileSync(`${file}.new`, content, { mode })
  renameSync(`${file}.new`, file)
}
