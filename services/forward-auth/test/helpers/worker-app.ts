import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'

/** How the worker of a folder answers a page. Those that ask the server may do so in many ways. */
export const WORKERS = {
  pass: 'fetch(event.request)',
  clone: 'fetch(event.request.clone())',
  again: 'fetch(new Request(event.request))',
  settings: "fetch(event.request, { cache: 'no-store' })",
  both: "fetch(new Request(event.request, { credentials: 'include' }))",
  first: 'fetch(event.request).catch(() => caches.match(event.request))',
  preload: 'event.preloadResponse.then((early) => early ?? fetch(event.request))',
  copied: "fetch(event.request.url, { headers: event.request.headers, redirect: 'manual' })",
  url: 'fetch(event.request.url)',
  /** The shell of an app that is installed, from its cache. */
  shell: "caches.match('/shell/').then((page) => page ?? fetch(event.request))",
  /** The same for forms, too. */
  every: "caches.match('/every/').then((page) => page ?? fetch(event.request))",
} as const

const workerOf = (folder: keyof typeof WORKERS) => `
const isShell = ${folder === 'shell' || folder === 'every'}
addEventListener('install', (event) => {
  skipWaiting()
  if (isShell) event.waitUntil(caches.open('shell').then((cache) => cache.add('/${folder}/')))
})
addEventListener('activate', (event) => {
  const ready = ${folder === 'preload'} ? registration.navigationPreload.enable() : undefined
  event.waitUntil(Promise.resolve(ready).then(() => clients.claim()))
})
addEventListener('fetch', (event) => {
  const { mode, method, url } = event.request
  if (mode !== 'navigate') return
  if (${folder === 'shell'} && method !== 'GET') return
  event.respondWith(${WORKERS[folder]})
})
`

/** Tells who is there, by what the server heard and by its API, and where to sign in if that is nobody. */
const pageOf = (user: string, heard: string) => `<!doctype html><title>App</title>
<p id="heard">${heard}</p>
<p id="who">page: ${user || 'nobody'}</p>
<p id="api"></p>
<p id="worker"></p>
<a id="sign-in">Sign in</a>
<form method="post" action="?sent"><input name="text"><button>Send</button></form>
<script>
const say = (id, text) => document.getElementById(id).textContent = text
const folder = location.pathname.split('/')[1]
const workers = navigator.serviceWorker
if (workers && ${JSON.stringify(Object.keys(WORKERS))}.includes(folder)) {
  const tell = () => workers.controller && say('worker', 'has a worker')
  workers.addEventListener('controllerchange', tell)
  tell()
  workers.register('/' + folder + '/worker.js', { scope: '/' + folder + '/' }).catch(() => {})
}
fetch('/api/who').then(async (answer) => {
  const { user, loginUrl } = await answer.json()
  say('api', 'api: ' + (user || answer.status))
  if (loginUrl) document.getElementById('sign-in').href = loginUrl
})
</script>`

/** An app with a page at each path, an API at `/api/who`, and workers at `/<name>/worker.js`. */
export async function startWorkerApp(t: Test) {
  const server = createServer(async (request, response) => {
    const { method, url = '', headers } = request
    const [path = ''] = url.split('?')
    const user = String(headers['x-forwarded-user'] ?? '')
    const folder = /^\/(\w+)\/worker\.js$/.exec(path)?.[1] as keyof typeof WORKERS | undefined
    const body = await text(request)
    const [type, answer] = folder
      ? ['text/javascript', workerOf(folder)]
      : path === '/api/who'
        ? ['application/json', JSON.stringify({ user })]
        : ['text/html; charset=utf-8', pageOf(user, `${method} ${body}`)]
    response.setHeader('content-type', type)
    response.setHeader('cache-control', 'no-cache')
    response.end(answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port }
}
