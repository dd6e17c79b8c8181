import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createFetch } from '@gatehouse/net'
import t from 'tap'
import { startCollector } from '../../../packages/service-kit/test/telemetry/collector.ts'
import { bundle } from '../../bundle.ts'

const KEY = 'sixteen-characters-or-more'

/** The bundle is another program than the source: minified, with parts left out. */
t.test('what the image runs issues a certificate, tells its telemetry, and stops', async (t) => {
  const main = await bundle('cert-service')
  const folder = t.testdir()
  const config = join(folder, 'config.yaml')
  writeFileSync(
    config,
    `server: { port: 0, tls: off }
metrics: { port: 0 }
log: { format: json }
storage: { path: data, masterKeyFile: master.key }
auth: { psk: { key: ${KEY} } }
`,
  )
  const collector = await startCollector(t)
  const otlp = `OTEL_EXPORTER_OTLP_ENDPOINT=${collector.url}`
  const clean = ['-u', 'NODE_OPTIONS', otlp, 'OTEL_EXPORTER_OTLP_PROTOCOL=http/json']
  const serve = [process.execPath, main, 'serve', '--config', config]
  const child = spawn('env', [...clean, ...serve], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let url = ''
  for await (const line of createInterface(child.stdout)) {
    const { msg, url: told } = JSON.parse(line)
    if (msg === 'ready') url = told
    if (url) break
  }

  const fetch = createFetch()
  t.teardown(() => fetch.close())
  const headers = { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ domain: 'app.example.com' })
  const issued = await fetch(`${url}/api/certificate`, { method: 'POST', headers, body })
  t.match(JSON.parse(issued.body.toString()), { domain: 'app.example.com', cached: false })
  const refused = await fetch(`${url}/api/certificate/none.example.com`, { headers, status: [404] })
  t.match(JSON.parse(refused.body.toString()), { code: 'CERT_NOT_FOUND' })
  t.match((await fetch(`${url}/docs`)).body.toString(), '<html')

  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null])
  t.ok(collector.spans().some((span) => span.name === 'POST /api/certificate'))
  t.ok(collector.metrics().some(({ name }) => name === 'gatehouse_build_info'))
})
