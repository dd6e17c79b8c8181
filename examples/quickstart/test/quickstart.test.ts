import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'

const START = join(import.meta.dirname, '../start.ts')
const ARGV = ['--conditions=@gatehouse/source', START]

interface Quickstart {
  readonly child: ChildProcess
  readonly printed: string
}

/** Starts it and waits for what it prints. */
function start(folder: string, port: number): Promise<Quickstart> {
  const env = { ...process.env, GATEHOUSE_DIR: folder, GATEHOUSE_PORT: String(port) }
  const child = spawn(process.execPath, ARGV, { env })
  let printed = ''
  return new Promise((resolve, reject) => {
    child.stdout.on('data', (part) => {
      printed += part
      if (printed.includes('Ctrl-C')) resolve({ child, printed })
    })
    child.stderr.on('data', (part) => {
      printed += part
    })
    child.on('exit', (code) => reject(new Error(`ended with ${code}: ${printed}`)))
  })
}

function stop({ child }: Quickstart): Promise<number | null> {
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  child.kill('SIGINT')
  return ended
}

/** What the printed curl does, without curl: npm test needs no system programs. */
async function follow(command: string): Promise<{ status?: number; serialNumber: string }> {
  const [, ca = '', key = '', body = '', url = ''] =
    /^curl -sS --cacert (\S+) -H "Authorization: APIKey \$\(cat (\S+)\)" -H 'Content-Type: application\/json' -d '(.*)' (\S+)$/.exec(
      command,
    ) ?? []
  const authorization = `APIKey ${(await readFile(key, 'utf8')).trim()}`
  const headers = { authorization, 'content-type': 'application/json' }
  const trusted = await readFile(ca)
  return new Promise((resolve, reject) => {
    request(url, { method: 'POST', headers, ca: trusted, agent: false }, async (response) => {
      const parts = await response.toArray()
      resolve({ status: response.statusCode ?? 0, ...JSON.parse(Buffer.concat(parts).toString()) })
    })
      .on('error', reject)
      .end(body)
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

t.test('npm start', async (t) => {
  const folder = join(t.testdir(), 'gate house')
  const plain = join(t.testdirName, 'gatehouse')
  const port = await freePort()
  const first = await start(plain, port)
  t.teardown(() => void first.child.kill('SIGKILL'))
  t.match(first.printed, `https://localhost:${port}`)
  const command = first.printed.split('\n').find((line) => line.startsWith('curl ')) ?? ''
  const certificate = await follow(command)
  t.match(certificate, { status: 200, domain: 'app.example.com' })
  for (const secret of ['keys/api.key', 'keys/master.key'])
    t.equal((await stat(join(plain, secret))).mode & 0o777, 0o600, secret)

  const busy = await new Promise<{ code: unknown; err: string }>((resolve) => {
    const env = { ...process.env, GATEHOUSE_DIR: folder, GATEHOUSE_PORT: String(port) }
    execFile(process.execPath, ARGV, { env }, (error, _out, err) =>
      resolve({ code: error?.code, err }),
    )
  })
  t.match(busy, { code: 1, err: /^gatehouse: cannot listen on [^\n]*GATEHOUSE_PORT[^\n]*\n$/ })

  t.equal(await stop(first), 0)
  const second = await start(plain, port)
  t.teardown(() => void second.child.kill('SIGKILL'))
  t.equal(second.printed, first.printed, 'a second start says the same')
  t.equal((await follow(command)).serialNumber, certificate.serialNumber, 'and has kept everything')
  t.equal(await stop(second), 0)

  await writeFile(join(t.testdirName, 'file'), '')
  const unwritable = await new Promise<{ code: unknown; err: string }>((resolve) => {
    const env = { ...process.env, GATEHOUSE_DIR: join(t.testdirName, 'file/x') }
    execFile(process.execPath, ARGV, { env }, (error, _out, err) =>
      resolve({ code: error?.code, err }),
    )
  })
  t.match(unwritable, { code: 1, err: /^gatehouse: cannot write [^\n]*\n$/ })
})
