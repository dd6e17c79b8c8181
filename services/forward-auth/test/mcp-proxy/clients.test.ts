import type { AddressInfo } from 'node:net'
import { systemClock } from '@gatehouse/service-kit/clock'
import {
  Client as Client2,
  StreamableHTTPClientTransport as Transport2,
} from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import t, { type Test } from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { startApprover } from './approver.ts'

const ABOUT = { name: 'assistant', version: '1.0.0' }

interface Answer {
  readonly text: string | undefined
  readonly isError: boolean
}

/** Clients of the SDKs as they are, without options for calls that take long. */
const CLIENTS = {
  'SDK 1.32': async (t: Test, url: URL, init: object) => {
    const client = new Client1(ABOUT)
    await client.connect(new Transport1(url, init) as Transport)
    t.teardown(() => client.close())
    return (name: string) => client.callTool({ name }).then(answerIn)
  },
  'SDK 2.4, old version': (t: Test, url: URL, init: object) => connect2(t, url, init, 'legacy'),
  'SDK 2.4': (t: Test, url: URL, init: object) => connect2(t, url, init, 'auto'),
} as const

async function connect2(t: Test, url: URL, init: object, mode: 'legacy' | 'auto') {
  const client = new Client2(ABOUT, { versionNegotiation: { mode } })
  await client.connect(new Transport2(url, init))
  t.teardown(() => client.close())
  return (name: string) => client.callTool({ name }).then(answerIn)
}

function answerIn(result: object): Answer {
  const { content, isError } = result as { content?: { text?: string }[]; isError?: boolean }
  return { text: content?.[0]?.text, isError: isError === true }
}

/** A client whose person decides, at a server of an SDK. */
async function connect(t: Test, name: keyof typeof CLIENTS, sdk: 1 | 2, approve: string) {
  const server = await startToolServer(t, sdk)
  const { app, token, decide, waiting } = await startApprover(t, server.port, {
    approve,
    clock: systemClock,
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  let requests = 0
  app.server.on('request', () => {
    requests += 1
  })
  const headers = {
    authorization: `Bearer ${token}`,
    'x-forwarded-host': 'app.example.com',
    'x-forwarded-proto': 'https',
  }
  const url = new URL(`http://127.0.0.1:${port}/portals/main/mcp-proxy/mcp`)
  const call = await CLIENTS[name](t, url, { requestInit: { headers } })
  return { call, decide, waiting, server, requests: () => requests }
}

for (const name of Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])
  t.test(name, async (t) => {
    const sdk = name === 'SDK 2.4' ? 2 : 1

    await t.test('waits for the yes', async (t) => {
      const { call, decide, server } = await connect(t, name, sdk, '')
      t.strictSame(await call('read_note'), { text: 'read_note', isError: false })
      const answer = call('delete_note')
      await decide('once')
      t.strictSame(await answer, { text: 'delete_note', isError: false })
      t.strictSame(server.ran, ['read_note', 'delete_note'])
    })

    await t.test('is told of the no', async (t) => {
      const { call, decide, server } = await connect(t, name, sdk, '')
      const answer = call('delete_note')
      await decide('deny')
      t.match(await answer, { text: /refused by somebody/, isError: true })
      t.strictSame(server.ran, [])
    })

    await t.test('goes on after it has waited', async (t) => {
      const { call, decide, waiting, server, requests } = await connect(t, name, sdk, 'wait: 1s')
      const answer = call('delete_note')
      if (name === 'SDK 2.4') {
        await until(async () => (await waiting()) > 0)
        const first = requests()
        await until(() => requests() > first)
        await decide('once')
        t.strictSame(await answer, { text: 'delete_note', isError: false }, 'by itself')
      } else {
        t.match(await answer, {
          text: /account\/calls\/[\w-]{43} .*make exactly the same call/s,
          isError: true,
        })
        await decide('once')
        t.strictSame(await call('delete_note'), { text: 'delete_note', isError: false })
      }
      t.strictSame(server.ran, ['delete_note'])
      t.equal(await waiting(), 0)
    })
  })
