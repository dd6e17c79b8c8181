import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { callHeaders, oldToolCall } from '../helpers/mcp-requests.ts'
import { ATTEMPTS } from '../integration/mcp-attempts.ts'
import { startProxy, WRITER } from './kit.ts'

expectWarnings(t, 'check refused')

type Members = Readonly<Record<string, unknown>>
/** How a server finds a member of an object. */
type Find = (members: Members, name: string) => unknown

/** Servers by hand, which read nothing but the body. */
const SERVERS: Readonly<Record<string, Find>> = {
  'reads members by their names': (members, name) => members[name],
  // As encoding/json of Go does.
  'folds the names of members': (members, name) =>
    Object.entries(members).findLast(([other]) => other.toLowerCase() === name)?.[1],
  'takes other spellings': (members, name) =>
    Object.entries(members).findLast(
      ([other]) => other.replace(/[-_]/g, '').toLowerCase() === name,
    )?.[1],
}

async function startServer(t: Test, find: Find) {
  const ran: unknown[] = []
  const server = createServer(async (request, response) => {
    const all = [await json(request)].flat() as Members[]
    const calls = all.filter((message) => find(message, 'method') === 'tools/call')
    ran.push(...calls.map((message) => find(Object(find(message, 'params')), 'name')))
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: [] } }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, ran }
}

const READ = JSON.stringify(oldToolCall('read_note'))
const put = (member: string, place: string) => READ.replace(place, `${member},${place}`)
/** Bodies that call one tool for some, and another one for others. */
const BODIES: readonly string[] = [
  ...['Name', 'NAME', 'n_ame', 'na-me', 'n\\u0061me', 'name'].flatMap((name) => [
    put(`"${name}":"delete_note"`, '"name"'),
    READ.replace('"arguments"', `"${name}":"delete_note","arguments"`),
  ]),
  ...['Params', 'PARAMS', 'param\u017f', 'params'].flatMap((name) => [
    put(`"${name}":{"name":"delete_note"}`, '"params"'),
    READ.replace(/\}$/, `,"${name}":{"name":"delete_note"}}`),
  ]),
  READ.replace('tools/call', 'ping').replace('"method"', '"Method":"tools/call","method"'),
  ...Object.values(ATTEMPTS).flatMap(({ bodies = [] }) => bodies),
]

for (const [title, find] of Object.entries(SERVERS))
  t.test(`a server that ${title}`, async (t) => {
    const server = await startServer(t, find)
    const { send } = await startProxy(t, server.port)
    for (const headers of [{}, Object.fromEntries(callHeaders('read_note'))])
      for (const body of BODIES) {
        await send(body, { headers })
        t.notOk(server.ran.includes('delete_note'), body)
      }
    await send(READ)
    t.ok(server.ran.includes('read_note'), 'what is read passes')
    await send(oldToolCall('delete_note'), { key: WRITER })
    t.equal(server.ran.at(-1), 'delete_note')
  })
