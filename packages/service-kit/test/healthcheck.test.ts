import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { healthcheck } from '../src/healthcheck.ts'

t.test('a service is ready if it says so, and nothing else is', async (t) => {
  let status = 200
  const paths = new Set<string | undefined>()
  const server = createServer((request, response) => {
    paths.add(request.url)
    response.writeHead(status).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const check = () => healthcheck({ host: '0.0.0.0', port, tls: false })
  await check()
  for (status of [204, 302, 404, 503])
    await t.rejects(check(), { message: `not ready: status ${status}` })
  t.strictSame([...paths], ['/readyz'])
  server.close()
  await once(server, 'close')
  await t.rejects(check(), { message: /^not ready: ECONN/ })
})
