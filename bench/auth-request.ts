import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../services/forward-auth/test/helpers/process.ts'
import { commandOn, startChild } from './harness/child.ts'
import { compare, type Effort, type Round } from './harness/compare.ts'
import type { LoadResult, RequestsId } from './harness/load-generator.ts'
import { notMeasured, type Row, stated } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { pageRequest, visitorCookies } from './harness/visitors.ts'

const NAME = 'auth-request: what the check adds to a request through nginx, keep-alive, p50'
const PATIENCE_MS = 5_000
const US_PER_MS = 1_000
const VISITORS = 1_000

/** A static file of 1 kB behind nginx with `auth_request`, against the same file without. */
export async function* authRequest(effort: Effort): AsyncGenerator<Row> {
  if (spawnSync('nginx', ['-v']).error) return yield notMeasured(NAME, 'there is no nginx')
  const cookies = visitorCookies(VISITORS)
  const { value, difference } = await compare(() => startRound(cookies), effort)
  yield stated('auth-request: nginx without it, p50', value('open') * US_PER_MS, 'µs')
  yield stated(NAME, difference('guarded', 'open') * US_PER_MS, 'µs')
}

/** Measures the median delay (ms) of one request after the other. */
async function startRound(cookies: readonly string[]): Promise<Round<'open' | 'guarded'>> {
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const gatehouse = await startChild<ServerReady>('../sides/forward-auth.ts', {
    core: 0,
    args: ['production', String(VISITORS)],
  })
  const nginx = await startNginx(gatehouse.ready.port)
  async function delayOf(path: string): Promise<(ms: number) => Promise<number>> {
    const requests = cookies.map((cookie) => pageRequest(path, cookie))
    const id = await generator.call<RequestsId>(requests)
    const load = { port: nginx.port, connections: 1, requests: id }
    return async (ms) => (await generator.call<LoadResult>({ ...load, ms })).p50
  }
  return {
    measure: { open: await delayOf('/open/page'), guarded: await delayOf('/guarded/page') },
    async stop() {
      await nginx.stop()
      await Promise.all([generator.stop(), gatehouse.stop()])
    },
  }
}

async function startNginx(gatehousePort: number) {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'))
  const port = await freePort()
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, configuration(folder, port, gatehousePort))
  writeFileSync(join(folder, 'page'), 'x'.repeat(1_024))
  const [command, ...args] = commandOn(0, 'nginx')
  const child = spawn(command, [...args, '-e', 'stderr', '-c', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = once(child, 'exit')
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/open/page`).then(
      ({ ok }) => ok,
      () => false,
    )
  for (const start = Date.now(); !(await isUp()); await setTimeout(25))
    if (Date.now() - start > PATIENCE_MS) throw new Error('nginx does not answer')
  return {
    port,
    async stop() {
      child.kill()
      await ended
      rmSync(folder, { recursive: true })
    },
  }
}

function configuration(folder: string, port: number, gatehousePort: number): string {
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `daemon off;
master_process off;
pid ${folder}/nginx.pid;
events {}
http {
  access_log off;
  keepalive_requests 1000000;
  ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
  upstream gatehouse { server 127.0.0.1:${gatehousePort}; keepalive 16; }
  server {
    listen 127.0.0.1:${port};
    location /open/ { alias ${folder}/; }
    location /guarded/ { alias ${folder}/; auth_request /_gatehouse; }
    location = /_gatehouse {
      internal;
      proxy_pass http://gatehouse/portals/main/authz/nginx?policy=staff;
      proxy_http_version 1.1;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header Connection "";
      proxy_set_header X-Gatehouse-Answer sealed;
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URL https://app.example.com$request_uri;
      proxy_set_header X-Forwarded-For $remote_addr;
    }
  }
}
`
}
