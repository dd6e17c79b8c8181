import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'

/** What an answer has to be: as the document says, whatever was asked. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
]

const program = join(process.env.SCHEMATHESIS ?? '', 'bin/st')
export const missingSchemathesis =
  !existsSync(program) && '$SCHEMATHESIS names no folder with schemathesis'

/** Sends a service, by its own document, what it takes and what it does not, and fails for what the document does not say. */
export async function holdToDocument(
  t: Test,
  app: FastifyInstance,
  headers: Readonly<Record<string, string>>,
  /** Parts of paths that are always these, since hardly any other exists. */
  parts: Readonly<Record<string, string>> = {},
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'schemathesis-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'openapi.json')
  await app.ready()
  // With the pages for people, which browsers call.
  const document = JSON.parse(JSON.stringify(app.swagger()))
  writeFileSync(file, JSON.stringify({ ...document, paths: withParts(document.paths, parts) }))
  // Providers that cannot be reached are 503, which documents say where it may be.
  writeFileSync(
    join(folder, 'schemathesis.toml'),
    '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]\n',
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const args = [
    ...['run', file, '--url', `http://127.0.0.1:${port}`, '--checks', CHECKS.join()],
    ...[
      '--no-color',
      '--seed',
      '1',
      '--max-examples',
      '20',
      '--phases',
      'examples,coverage,fuzzing',
    ],
    ...Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
  ]
  const { code, said } = await new Promise<{ code: unknown; said: string }>((resolve) =>
    execFile(program, args, { cwd: folder, maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, said: stdout + stderr }),
    ),
  )
  const [, failures = said] = said.split(/=+ FAILURES =+/)
  t.equal(code, 0, code ? failures : 'every answer is as the document says')
}

interface Operation {
  readonly parameters?: readonly { readonly name: string }[]
}

/** The paths of a document, with some parameters filled in. */
const withParts = (
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>,
  parts: Readonly<Record<string, string>>,
) =>
  Object.fromEntries(
    Object.entries(paths).map(([path, operations]) => [
      path.replace(/{(\w+)}/g, (whole, name) => parts[name] ?? whole),
      Object.fromEntries(
        Object.entries(operations).map(([method, operation]) => [
          method,
          {
            ...operation,
            parameters: operation.parameters?.filter(({ name }) => !(name in parts)),
          },
        ]),
      ),
    ]),
  )
