// Fetches the certificates for the given names: writes them to files for the next start of HAProxy, and
// updates a running HAProxy over its Runtime API.
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'

const GATEHOUSE = 'https://127.0.0.1:7401'
const KEY_FILE = '/etc/haproxy/gatehouse.key'
const FOLDER = '/etc/haproxy/certificates'
const SOCKET = '/run/haproxy/admin.sock'

const key = (await readFile(KEY_FILE, 'utf8')).trim()

for (const name of process.argv.slice(2)) {
  try {
    await bring(name)
  } catch (error) {
    console.error(`${name}: ${error.message}`)
    process.exitCode = 1
  }
}

async function bring(name) {
  const file = `${FOLDER}/${name.replace('*', '_')}.pem`
  const pem = await obtain(name)
  await writeFile(`${file}.new`, pem, { mode: 0o600 })
  await rename(`${file}.new`, file)
  await push(file, pem)
}

async function obtain(domain) {
  const answer = await fetch(`${GATEHOUSE}/api/certificate`, {
    method: 'POST',
    headers: {
      authorization: `APIKey ${key}`,
      'content-type': 'application/json',
      accept: 'application/x-pem-file',
    },
    body: JSON.stringify({ domain }),
    signal: AbortSignal.timeout(30_000),
  })
  const body = await answer.text()
  if (answer.status !== 200) throw new Error(`Gatehouse answered ${answer.status} ${body}`)
  return body
}

/** Updates the certificate if HAProxy is running with another one. */
async function push(file, pem) {
  const shown = await ask(`show ssl cert ${file}`)
  const { fingerprint } = new X509Certificate(pem)
  if (shown === undefined || shown.includes(fingerprint.replaceAll(':', ''))) return
  const isNew = shown.includes('Not found')
  if (isNew) await command(`new ssl cert ${file}`, 'New empty certificate store')
  await command(`set ssl cert ${file} <<\n${pem}`, 'Transaction')
  await command(`commit ssl cert ${file}`, 'Success!')
  if (isNew) await command(`add ssl crt-list ${FOLDER} ${file}`, 'Success!')
}

async function command(line, success) {
  const answer = await ask(line)
  if (!answer?.includes(success)) throw new Error(`HAProxy answered ${answer}`)
}

/** The response of the Runtime API; undefined if HAProxy is not running. */
async function ask(line) {
  const socket = connect(SOCKET)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') return undefined
    throw error
  }
  socket.end(`${line}\n`)
  return (await text(socket)).trim()
}
