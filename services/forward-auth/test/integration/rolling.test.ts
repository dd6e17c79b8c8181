import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, type Running, startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { freePort, startProcess } from '../helpers/process.ts'

expectWarnings(t, 'FWA_PROVIDER_UNREACHABLE')

const run = promisify(execFile)
const PORTALS = portalOf('main')
const REQUESTS = 10_000
const RESTARTS = 4
const CONCURRENCY = 8
/** No request is tried twice, by nobody. */
const WITHOUT_RETRIES = { nginx: 'proxy_next_upstream off;', haproxy: 'retries 0' }

interface Proxied {
  readonly port: number
  readonly folder: string
  /** Where the two instances listen. */
  readonly instances: readonly number[]
}

/** A proxy that checks each request at one of the instances. `without` takes one of them out of service. */
type Start = (
  t: Test,
  proxied: Proxied,
) => Promise<{ without?(port: number | undefined): Promise<unknown> }>

const PROXIES: Readonly<Record<string, Start>> = {
  // It never asks whether a server is ready, so whoever restarts one says so.
  async nginx(t, { port, folder, instances }) {
    const file = join(folder, 'nginx.conf')
    const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    const write = (down: number | undefined) =>
      writeFileSync(
        file,
        `user root; worker_processes 2; pid ${folder}/nginx.pid;
events {}
http {
  access_log off;
  ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
  ${WITHOUT_RETRIES.nginx}
  upstream gatehouse {
    ${instances.map((one) => `server 127.0.0.1:${one}${one === down ? ' down' : ''};`).join(' ')}
    keepalive 16;
  }
  server {
    listen 127.0.0.1:${port};
    keepalive_requests 1000000;
    location / { auth_request /check; return 200; }
    location /app { auth_request /check; root ${folder}; try_files /app.txt =404; }
    location = /check {
      internal;
      proxy_pass http://gatehouse/portals/main/authz/nginx;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Gatehouse-Answer sealed;
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URL https://app.example.com$request_uri;
    }
  }
}
`,
      )
    write(undefined)
    writeFileSync(join(folder, 'app.txt'), 'the app')
    const args = ['-e', 'stderr', '-c', file]
    await startProcess(t, {
      command: 'nginx',
      args: [...args, '-g', 'daemon off;'],
      folder,
      port,
    })
    const workers = () => {
      const pid = readFileSync(`${folder}/nginx.pid`, 'utf8').trim()
      return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
    }
    return {
      async without(down) {
        write(down)
        const before = workers()
        await run('nginx', [...args, '-s', 'reload'])
        // nginx reloads in the background. Until the workers of before have ended, they send to both instances.
        await until(() => !workers().some((worker) => before.includes(worker)))
      },
    }
  },
  // It asks /readyz, and sends nothing to who is not ready.
  async haproxy(t, { port, folder, instances }) {
    const file = join(folder, 'haproxy.cfg')
    const servers = instances.map((one) => `server s${one} 127.0.0.1:${one} check`)
    writeFileSync(
      file,
      `defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout check 2s
frontend checks
  bind 127.0.0.1:${port}
  default_backend gatehouse
backend gatehouse
  ${WITHOUT_RETRIES.haproxy}
  option httpchk GET /readyz
  default-server inter 200ms fall 2 rise 1
  http-request set-path /portals/main/authz/haproxy
  http-request set-header X-Forwarded-Host app.example.com
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Forwarded-Uri /app
  http-request set-header X-Forwarded-Method GET
  ${servers.join('\n  ')}
`,
    )
    await startProcess(t, { command: 'haproxy', args: ['-db', '-f', file], folder, port })
    return {}
  },
}

const isThere = (program: string) => {
  try {
    execFileSync(program, ['-v'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

for (const [name, startProxy] of Object.entries(PROXIES))
  t.test(
    `${name}: two instances are restarted in turn, and no request is lost`,
    { skip: !isThere(name) && `${name} is not installed` },
    async (t) => {
      const folder = testFolder(t)
      const instances = [await freePort(), await freePort()]
      const start = async (port: number): Promise<Running> => {
        const file = join(folder, `${port}.yaml`)
        const rest = `server: { port: ${port} }
metrics: { enabled: false }
log: { checks: all }
storage: { path: data }`
        writeFileSync(file, yamlOf(PORTALS, rest))
        const args = ['serve', '--config', file]
        const running = startRunning(t, [...programOf('forward-auth'), ...args])
        await running.said('ready')
        return running
      }
      const running = await Promise.all(instances.map(start))
      const port = await freePort()
      const proxyFolder = join(folder, name)
      mkdirSync(proxyFolder)
      const { without } = await startProxy(t, { port, folder: proxyFolder, instances })
      // Another instance on their folder makes the session.
      const shared = yamlOf(PORTALS, `storage: { path: "${folder}/data" }`)
      const { signIn } = await startApp(t, shared, undefined, { clock: systemClock })
      const headers = { cookie: await signIn('main') }

      const answers = new Map<string, number>()
      let asked = 0
      let isOver = false
      const load = Array.from({ length: CONCURRENCY }, async () => {
        // A connection each, since nginx closes those that are kept when it is reloaded.
        for (; !isOver; asked++) {
          const answer = await ask(`http://127.0.0.1:${port}/app`, { headers }).then(
            ({ status }) => String(status),
            ({ code }) => String(code),
          )
          answers.set(answer, (answers.get(answer) ?? 0) + 1)
        }
      })
      let restarts = 0
      for (; restarts < RESTARTS || asked < REQUESTS; restarts++) {
        const at = restarts % 2
        const one = instances[at] as number
        await without?.(one)
        running[at]!.child.kill('SIGTERM')
        t.match(await running[at]!.ended, { code: 0, stderr: '' })
        running[at] = await start(one)
        await without?.(undefined)
        // The proxy sends requests to both again.
        await running[at]!.said('request')
      }
      isOver = true
      await Promise.all(load)
      t.comment(`${asked} requests, ${restarts} restarts`)
      t.strictSame(Object.fromEntries(answers), { 200: asked })
    },
  )
