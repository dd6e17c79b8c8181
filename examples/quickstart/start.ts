// `npm start`: cert-service with what it needs, made at first start and kept in .gatehouse.
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { styleText } from 'node:util'
import { toPem } from '@gatehouse/pki'
import { createLogger } from '@gatehouse/service-kit'
import { type Serving, serve } from '../../services/cert-service/src/cli/serve.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'

const folder = resolve(process.env.GATEHOUSE_DIR ?? join(import.meta.dirname, '../../.gatehouse'))
const keyFile = join(folder, 'keys/api.key')
const rootFile = join(folder, 'root.pem')

try {
  await makeFolders()
  await makeKey()
  print(await start())
} catch (error) {
  process.stderr.write(`gatehouse: ${explain(error as NodeJS.ErrnoException)}\n`)
  process.exitCode = 1
}

async function makeFolders(): Promise<void> {
  await mkdir(join(folder, 'keys'), { recursive: true, mode: 0o700 })
}

/** An API key of its own for each clone. */
async function makeKey(): Promise<void> {
  const key = randomBytes(32).toString('base64url')
  await writeFile(keyFile, `${key}\n`, { mode: 0o600, flag: 'wx' }).catch((error) => {
    if (error.code !== 'EEXIST') throw error
  })
}

async function start(): Promise<Serving> {
  const file = join(import.meta.dirname, 'cert-service.yaml')
  const env = { GATEHOUSE_PORT: '7401', ...process.env, GATEHOUSE_DIR: folder }
  const load = () => loadCertConfig(file, env)
  const loaded = await load()
  const log = createLogger({ ...loaded.value.log, name: 'cert-service' })
  const serving = await serve({ loaded, log, load })
  const root = serving.service.ca.root() as Uint8Array
  await writeFile(rootFile, toPem('CERTIFICATE', root))
  return serving
}

function print({ url }: Serving): void {
  const base = `https://localhost:${new URL(url).port}`
  const bold = (text: string) => styleText('bold', text)
  const dim = (text: string) => styleText('dim', text)
  const command = [
    `curl -sS --cacert ${quote(rootFile)}`,
    `-H "Authorization: APIKey $(cat ${quote(keyFile)})"`,
    `-H 'Content-Type: application/json'`,
    `-d '{"domain":"app.example.com"}'`,
    `${base}/api/certificate`,
  ]
  process.stdout.write(`
${bold('Gatehouse is running')}

  cert-service  ${base}   ${dim(`its routes: ${base}/docs`)}
  files         ${folder}   ${dim('data, keys, root.pem')}

Paste this into another terminal for a certificate:

${command.join(' ')}

${dim('Ctrl-C stops it. What it made is kept for the next start.')}
`)
}

function explain({ code, message, path }: NodeJS.ErrnoException): string {
  if (code === 'CONFIG_LISTEN_FAILED')
    return `${message}; another port: GATEHOUSE_PORT=7402 npm start`
  return path === undefined ? message : `cannot write ${path} (${code})`
}

/** For a shell, where need be. */
function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
