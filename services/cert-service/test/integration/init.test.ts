import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { freePort } from '../../../../scripts/free-ports.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { startRunning } from '../../../../scripts/test/running.ts'

t.test('the commands that init prints lead to a certificate', async (t) => {
  const folder = testFolder(t)
  const port = await freePort()
  const program = [process.execPath, ...programOf('cert-service')]
    .map((arg) => `'${arg}'`)
    .join(' ')
  const env = { PATH: process.env.PATH, HOME: folder, CURL_HOME: folder }
  const run = (command: string) =>
    promisify(execFile)(
      'sh',
      [
        '-c',
        `set -e; gatehouse_certs() { ${program} "$@"; }; ${command.replaceAll('gatehouse-certs', 'gatehouse_certs')}`,
      ],
      { cwd: folder, env },
    )

  const { stdout } = await run('gatehouse-certs init')
  const commands =
    stdout.replaceAll('7401', String(port)).match(/(?<=^ {2})\S.*(\n {4}.*)*/gm) ?? []
  const [serve, ...others] = commands
  t.equal(serve, 'gatehouse-certs serve --config config.yaml')

  // Another port than the usual one, which may be in use.
  const config = join(folder, 'config.yaml')
  const text = readFileSync(config, 'utf8').replace('server:\n', `server:\n  port: ${port}\n`)
  writeFileSync(config, `metrics: { enabled: false }\n${text}`)
  const service = startRunning(t, [...programOf('cert-service'), 'serve', '--config', config])
  await service.said('ready')

  const answers = []
  for (const command of others)
    answers.push(
      (await run(command.replace('--ca ', `--url https://localhost:${port} --ca `))).stdout,
    )
  const chain = readFileSync(join(folder, 'tls/app.example.com/fullchain.pem'), 'utf8')
  t.equal(
    JSON.parse(answers.at(-1) ?? '').certificate,
    chain,
    'curl gets the certificate that is in files',
  )
})
