import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import {
  answerHttp01,
  type ChallengeStore,
  type ChallengeTask,
  createHttp01,
  createHttp01Server,
} from '../../src/index.ts'
import { createMemoryStore } from '../memory-store.ts'

const signal = new AbortController().signal
const TOKEN = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA'
const task = (token = TOKEN): ChallengeTask => ({
  identifier: { type: 'dns', value: 'app.example.test' },
  wildcard: false,
  token,
  keyAuthorization: `${token}.thumbprint`,
})

async function listen(t: Test, store: ChallengeStore): Promise<number> {
  const server = createHttp01Server(store).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

async function ask(port: number, method: string, path: string) {
  const sent = request({ host: '127.0.0.1', port, method, path }).end()
  const [response] = await once(sent, 'response')
  let body = ''
  for await (const chunk of response) body += chunk
  return { status: response.statusCode, body }
}

t.test('answers from any replica until the clean-up', async (t) => {
  const store = createMemoryStore()
  const [port, another] = [await listen(t, store), await listen(t, store)]
  const solver = createHttp01(store)
  await solver.present(task(), signal)
  for (const each of [port, another])
    t.strictSame(await ask(each, 'GET', `/.well-known/acme-challenge/${TOKEN}`), {
      status: 200,
      body: `${TOKEN}.thumbprint`,
    })
  t.equal(await answerHttp01(store, TOKEN), `${TOKEN}.thumbprint`, 'for a route')
  await solver.cleanUp(task(), signal)
  await solver.cleanUp(task(), signal)
  t.equal((await ask(port, 'GET', `/.well-known/acme-challenge/${TOKEN}`)).status, 404)
})

const REFUSED: [method: string, path: string, status: number][] = [
  ['GET', '/', 404],
  ['GET', '/.well-known/acme-challenge/', 404],
  ['GET', `/.well-known/acme-challenge/${TOKEN}/`, 404],
  ['GET', `/.well-known/acme-challenge/${TOKEN}?x`, 404],
  ['GET', `/.well-known/acme-challenge/../acme-challenge/${TOKEN}`, 404],
  ['GET', `/.well-known/acme-challenge/%65${TOKEN.slice(1)}`, 404],
  ['GET', '/.well-known/acme-challenge/<script>alert(1)</script>', 404],
  ['GET', `/.well-known/acme-challenge/${'a'.repeat(300)}`, 404],
  ['POST', `/.well-known/acme-challenge/${TOKEN}`, 405],
]

t.test('answers nothing else, and repeats nothing', async (t) => {
  const store = createMemoryStore()
  const port = await listen(t, store)
  await createHttp01(store).present(task(), signal)
  for (const [method, path, status] of REFUSED)
    t.strictSame(await ask(port, method, path), { status, body: '' }, `${method} ${path}`)
  t.strictSame(await ask(port, 'HEAD', `/.well-known/acme-challenge/${TOKEN}`), {
    status: 200,
    body: '',
  })
})

t.test('does not pass an invalid token to the store', async (t) => {
  const store: ChallengeStore = {
    put: async () => {},
    async get(key) {
      t.fail(key)
      return undefined
    },
    delete: async () => {},
  }
  for (const token of ['', 'short', '../../etc/passwd', 'a b c d e f g h i j k', `${TOKEN}\n`])
    t.equal(await answerHttp01(store, token), undefined, JSON.stringify(token))
})

t.test('a store that fails is a 503, and garbage ends the connection', async (t) => {
  const store = { ...createMemoryStore(), get: () => Promise.reject(new Error('down')) }
  const port = await listen(t, store)
  t.strictSame(await ask(port, 'GET', `/.well-known/acme-challenge/${TOKEN}`), {
    status: 503,
    body: '',
  })
  const socket = connect(port, '127.0.0.1').end('\0garbage\r\n\r\n')
  socket.resume()
  await once(socket, 'close')
})
