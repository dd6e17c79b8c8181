// Runs the commands of the guides, with curl and openssl, against services of their own.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { settingsFor, start } from '../../../examples/quickstart/test/program.ts'
import { freePort } from '../../../services/forward-auth/test/helpers/process.ts'
import { type Block, ROOT, readDocument, readDocuments } from '../markdown.ts'

const BLOCKS = [...readDocuments('README.md'), ...readDocuments('docs/*.md')].flatMap(
  ({ blocks }) => blocks,
)
const MAIN = join(ROOT, 'services/cert-service/src/main.ts')
const PROGRAM = `#!/bin/sh\nexec '${process.execPath}' --conditions=@gatehouse/source '${MAIN}' "$@"\n`

interface Shell {
  readonly cwd: string
  /** Where what the guides name by its usual port really is. */
  readonly ports: Readonly<Record<string, string | number>>
  readonly env?: Readonly<Record<string, string>>
}

/** Gives what the commands of a block print; the first one that fails is an error. */
async function run({ text }: Pick<Block, 'text'>, { cwd, ports, env }: Shell): Promise<string> {
  const script = text.replaceAll(/(?<=localhost:)\d+/g, (port) => String(ports[port] ?? port))
  const path = `${cwd}/bin:${dirname(process.execPath)}:${process.env.PATH}`
  const options = { cwd, env: { ...process.env, ...env, PATH: path } }
  const { stdout } = await promisify(execFile)('sh', ['-eu', '-c', script], options)
  return stdout
}

async function runAll(t: Test, kind: string, shell: Shell): Promise<void> {
  const blocks = BLOCKS.filter(({ info }) => info === `sh ${kind}`)
  t.not(blocks.length, 0)
  for (const block of blocks) {
    const where = `${block.file}:${block.line}`
    try {
      // curl takes a refusal for an answer.
      t.notMatch(await run(block, shell), '"code":', where)
    } catch (error) {
      t.fail(where, { error })
    }
  }
}

t.test('commands for `npm start`', async (t) => {
  const cwd = t.testdir()
  const settings = await settingsFor(join(cwd, '.gatehouse'))
  const { stop } = await start(t, settings)
  const { GATEHOUSE_PORT: certs = '', GATEHOUSE_HTTPS_PORT: https = '' } = settings
  await runAll(t, 'quickstart', { cwd, ports: { 7401: certs, 8443: https } })
  t.equal(await stop(), 0)
})

t.test('commands for a running cert-service, then for a stopped one', async (t) => {
  const port = await freePort()
  const cwd = t.testdir({
    bin: { 'gatehouse-certs': PROGRAM },
    'api.key': `${'k'.repeat(32)}\n`,
  })
  chmodSync(join(cwd, 'bin/gatehouse-certs'), 0o755)
  const config = join(cwd, 'config.yaml')
  writeFileSync(
    config,
    `server: { port: ${port} }
metrics: { enabled: false }
log: { format: json }
auth: { psk: { keyFile: api.key } }
certificates: [{ names: [kept.example.com] }]
`,
  )
  const shell: Shell = { cwd, ports: { 7401: port }, env: { GATEHOUSE_CONFIG: config } }
  const kept = {
    text: `curl -fsSk --retry 5 --retry-all-errors -H "Authorization: APIKey $(cat api.key)" \
https://localhost:7401/api/certificate/kept.example.com`,
  }

  const stopFirst = await serve(t, cwd, config)
  const certificate = await run(kept, shell)
  await runAll(t, 'running', shell)
  await stopFirst()
  await runAll(t, 'stopped', shell)
  const stopSecond = await serve(t, cwd, config)
  t.equal(await run(kept, shell), certificate, 'what was backed up is there again')
  await stopSecond()
})

t.test('auth-core in an app of its own', async (t) => {
  const { blocks } = readDocument('docs/auth-core.md')
  const files = blocks.filter(({ info }) => /^(js|ts) server\./.test(info))
  const servers = blocks.filter(({ info }) => info === 'sh server')
  const callers = blocks.filter(({ info }) => info === 'sh caller')
  const expected = [
    '{"hello":"everybody"}{"readBy":"default"}',
    '{"jobs":["nightly"]}{"deletedBy":"backup"}',
  ]
  t.strictSame([files.length, servers.length, callers.length], [2, 2, 2])
  for (const [i, file] of files.entries()) {
    const port = await freePort()
    const cwd = t.testdir({ node_modules: { '@gatehouse': {}, '@fastify': {} } })
    const modules = join(ROOT, 'packages/auth-core/node_modules')
    for (const name of ['fastify', '@fastify/auth'])
      symlinkSync(join(modules, name), join(cwd, 'node_modules', name))
    symlinkSync(join(ROOT, 'packages/auth-core'), join(cwd, 'node_modules/@gatehouse/auth-core'))
    const name = file.info.split(' ')[1] ?? ''
    writeFileSync(join(cwd, name), file.text.replace('port: 3000', `port: ${port}`))
    const server = spawn('sh', ['-eu', '-c', servers[i]?.text ?? ''], {
      cwd,
      env: {
        ...process.env,
        NODE_OPTIONS: '--conditions=@gatehouse/source',
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => server.kill('SIGKILL'))
    for await (const line of createInterface(server.stdout))
      if (JSON.parse(line).msg.startsWith('Server listening')) break
    server.stdout.resume()
    t.equal(await run(callers[i] as Block, { cwd, ports: { 3000: port } }), expected[i], name)
    server.kill('SIGKILL')
    await once(server, 'exit')
  }
})

async function serve(t: Test, cwd: string, config: string): Promise<() => Promise<void>> {
  const child = spawn(join(cwd, 'bin/gatehouse-certs'), ['serve'], {
    env: { ...process.env, GATEHOUSE_CONFIG: config },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  for await (const line of createInterface(child.stdout))
    if (JSON.parse(line).msg === 'ready') break
  child.stdout.resume()
  return async () => {
    child.kill('SIGTERM')
    t.strictSame(await exited, [0, null])
  }
}
