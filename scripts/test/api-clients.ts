// Clients as others make them of the OpenAPI documents, which call a service that runs.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { readDocument } from './markdown.ts'

const { API_CLIENTS: TOOLS = '' } = process.env
export const missingGenerators =
  !existsSync(join(TOOLS, 'python')) && '$API_CLIENTS names no folder with generators of clients'

/** Neither asks anybody about newer versions, nor tells anybody that it was used. */
const ENV = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', DO_NOT_TRACK: '1' }

async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
  const options = { cwd, env: { ...process.env, ...ENV, NODE_OPTIONS: '' }, maxBuffer: 1 << 26 }
  const { stdout } = await promisify(execFile)(command, args, options).catch((error) => {
    throw new Error(`${command} ${args.join(' ')} failed:\n${error.stdout}${error.stderr}`)
  })
  return stdout
}

const script = (cwd: string, name: string, ...args: string[]) =>
  run(cwd, process.execPath, join(TOOLS, 'node_modules/.bin', name), ...args)

export interface GeneratedClients {
  /** Checks the types of a program that imports `./sdk`, and runs it with the URL of the service. Gives what it prints. */
  typescript(program: string): Promise<unknown>
  /** Runs a program that imports the package `sdk`, with the URL of the service. Gives what it prints. */
  python(program: string): Promise<unknown>
}

/** Lints the document of a service, has it listen, and generates clients as the guide says. */
export async function generateClients(t: Test, app: FastifyInstance): Promise<GeneratedClients> {
  const folder = mkdtempSync(join(tmpdir(), 'api-clients-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  const document = join(folder, 'openapi.json')
  writeFileSync(document, (await app.inject('/openapi.json')).body)
  const lint = ['lint', document, '--extends', 'recommended', '--format', 'json']
  const { totals } = JSON.parse(await script(folder, 'redocly', ...lint))
  t.equal(totals.errors, 0, 'the document has no errors')

  await script(folder, 'openapi-ts', '-i', document, '-o', 'sdk', '--silent')
  const { blocks } = readDocument('docs/http-api.md')
  const settings = blocks.find(({ info }) => info === 'yaml openapi-python-client')?.text ?? ''
  writeFileSync(join(folder, 'python-client.yaml'), settings)
  const python = join(TOOLS, 'python/bin')
  const generate = ['generate', '--path', document, '--config', 'python-client.yaml']
  const target = ['--meta', 'none', '--output-path', 'python/sdk', '--fail-on-warning']
  await run(folder, join(python, 'openapi-python-client'), ...generate, ...target)

  return {
    async typescript(program) {
      writeFileSync(join(folder, 'program.ts'), program)
      const options = ['--strict', '--module', 'esnext', '--moduleResolution', 'bundler']
      const libraries = ['--target', 'es2022', '--lib', 'es2022,dom,dom.iterable']
      await script(folder, 'tsc', '--noEmit', ...options, ...libraries, 'program.ts')
      const outfile = join(folder, 'program.mjs')
      const entryPoints = [join(folder, 'program.ts')]
      await build({ entryPoints, outfile, bundle: true, platform: 'node', format: 'esm' })
      return JSON.parse(await run(folder, process.execPath, outfile, url))
    },
    async python(program) {
      writeFileSync(join(folder, 'python/program.py'), program)
      return JSON.parse(
        await run(join(folder, 'python'), join(python, 'python'), 'program.py', url),
      )
    },
  }
}
