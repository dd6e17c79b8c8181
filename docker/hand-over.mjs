// hand-over.mjs TEMPLATE KEY_FILE: copies the root of cert-service to the services that trust it, and
// writes the configuration of the proxy. It runs in the network of cert-service, which has loopback to itself.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { basename } from 'node:path'
import { text } from 'node:stream/consumers'

const ORIGIN = 'https://127.0.0.1:7401'
const STATE = '/var/lib/gatehouse'
const [template, keyFile] = process.argv.slice(2)

process.on('uncaughtException', ({ message }) => {
  process.stderr.write(`hand-over: ${message}\n`)
  process.exit(1)
})

write(`${STATE}/trust/root.pem`, await ask('GET', '/ca/root.pem'), 0o644)

const empty = readFileSync(template, 'utf8')
const API_KEY = readFileSync(keyFile, 'utf8').trim()
const values = { ...process.env, API_KEY, ...(empty.includes('EAB_KEY') && (await askAcmeKey())) }
const filled = empty.replace(/\$\{(\w+)\}/g, (_, name) => values[name])
write(`${STATE}/proxy/${basename(template)}`, filled, 0o600)

/** The key by which the proxy makes its account of ACME. */
async function askAcmeKey() {
  const headers = { Authorization: `APIKey ${API_KEY}`, 'Content-Type': 'application/json' }
  const { kid, hmacKey } = JSON.parse(await ask('POST', '/api/acme/key', headers, '{}'))
  return { EAB_KID: kid, EAB_KEY: hmacKey }
}

async function ask(method, path, headers, body) {
  const options = { method, headers, rejectUnauthorized: false }
  const response = await new Promise((resolve, reject) =>
    request(`${ORIGIN}${path}`, options, resolve).on('error', reject).end(body),
  )
  const answer = await text(response)
  if (response.statusCode !== 200)
    throw new Error(`${path} answers ${response.statusCode}: ${answer}`)
  return answer
}

/** Replaces the file as a whole, because a running program may read it. */
function write(file, content, mode) {
  writeFileSync(`${file}.new`, content, { mode })
  renameSync(`${file}.new`, file)
}
