import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createRoot, toPem } from '@gatehouse/pki'
import { describeFailure } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const now = Date.now()
const root = await createRoot({ commonName: 'R', now })
const FILES = {
  'root.pem': toPem('CERTIFICATE', root.certificate),
  'root.key': toPem('PRIVATE KEY', keyOf(root)),
  folder: {},
}

function keyOf({ key }: { key?: unknown }): Buffer {
  return (key as { export(o: object): Buffer }).export({ format: 'der', type: 'pkcs8' })
}

async function start(t: Test, folder: string, config: object) {
  const file = join(folder, 'config.yaml')
  const base = {
    server: { port: 0 },
    metrics: { enabled: false },
    storage: { path: 'data', masterKeyFile: 'keys/master.key' },
    auth: { psk: { key: 'a-key-of-sixteen-or-more' } },
  }
  writeFileSync(file, stringify({ ...base, ...config }))
  const load = () => loadCertConfig(file, {})
  const { log } = quietLog(t)
  const running = await serve({ loaded: await load(), log, load })
  t.teardown(running.close)
  return running
}

async function said(t: Test, config: object): Promise<string> {
  const starting = start(t, testFolder(t, FILES), config)
  return starting.then(
    () => 'it started',
    (error: Error) => describeFailure('p', error),
  )
}

const challenge = (port: number) => [
  {
    name: 'a',
    type: 'acme',
    directory: 'https://ca.test/dir',
    challenges: [{ type: 'http-01', listen: { port } }],
  },
]

t.test('what is first found at the start is one line with the file and a code', async (t) => {
  const caFile = (file: string) => [{ ...challenge(0)[0], caFile: file }]
  const places: ((file: string) => object)[] = [
    (certFile) => ({ server: { port: 0, tls: { certFile, keyFile: 'root.key' } } }),
    (keyFile) => ({ server: { port: 0, tls: { certFile: 'root.pem', keyFile } } }),
    (certFile) => ({ ca: { root: { certFile, keyFile: 'root.key' } } }),
    (keyFile) => ({ ca: { root: { certFile: 'root.pem', keyFile } } }),
    (certFile) => ({ ca: { intermediate: { certFile, keyFile: 'root.key' } } }),
    (keyFile) => ({ ca: { intermediate: { certFile: 'root.pem', keyFile } } }),
    (file) => ({ issuers: caFile(file) }),
    (caFile) => ({
      events: { webhook: { url: 'https://h.test', secret: 's'.repeat(16), caFile } },
    }),
  ]
  for (const place of places)
    for (const file of ['none', 'folder']) {
      const line = await said(t, place(file))
      t.match(line, new RegExp(`^p: .*/${file}\\b.* \\[(CONFIG|CERT)_[A-Z_]+\\]\\n$`), line)
      t.notMatch(line, /^p: E[A-Z]+/)
    }
})

t.test('a port that is taken is named, whoever wants it', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void taken.close())
  await new Promise((resolve) => taken.once('listening', resolve))
  const { port } = taken.address() as AddressInfo
  for (const config of [
    { server: { port } },
    { server: { port: 0, plainHttp: { port } } },
    { metrics: { port } },
    { issuers: challenge(port) },
  ])
    t.equal(
      await said(t, config),
      `p: cannot listen on 127.0.0.1:${port}: the port is in use by another program [CONFIG_LISTEN_FAILED]\n`,
    )
})

t.test('after the first start the key of the own root may be taken away', async (t) => {
  const folder = testFolder(t, FILES)
  const own = (keyFile: string) => ({ ca: { root: { certFile: 'root.pem', keyFile } } })
  const first = await start(t, folder, own('root.key'))
  const before = first.app.ca.intermediate().info.serialNumber
  await first.close()
  const second = await start(t, folder, own('gone.key'))
  t.equal(second.app.ca.intermediate().info.serialNumber, before)
})
