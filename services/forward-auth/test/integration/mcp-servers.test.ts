import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type Gate, startGate } from '../helpers/gate.ts'
import { createFetch } from '../helpers/mcp.ts'
import { SERVERS } from '../helpers/mcp-servers/index.ts'
import { type RawRequest, sendRaw } from '../helpers/raw-client.ts'
import { READER, WRITER, yamlFor } from '../mcp-proxy/kit.ts'
import { missingProgram } from '../proxies/index.ts'
import { ATTEMPTS, BODY_ATTEMPTS, endsSession, requestsOf, withSession } from './mcp-attempts.ts'

expectWarnings(t, 'check refused')

const RESOURCE = 'https://app.example.com/mcp'
const LANES = 8

/** A client with a key, of the newest version that the server knows, or of an older one. */
async function connect(t: Test, { port, certificate }: Gate, key: string, mode: 'auto' | 'legacy') {
  const about = { name: 'assistant', version: '1.0.0' }
  const client = new Client(about, { versionNegotiation: { mode } })
  const transport = new StreamableHTTPClientTransport(new URL(RESOURCE), {
    fetch: createFetch(port, certificate.rootPem),
    requestInit: { headers: { authorization: `APIKey ${key}` } },
  })
  t.teardown(() => client.close())
  await client.connect(transport)
  return { client, session: transport.sessionId }
}

/** Sends all, several at a time: how many were answered, by their status. */
async function sendAll({ port, certificate }: Gate, requests: readonly RawRequest[]) {
  const statuses: Record<number, number> = {}
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    for (const request of requests.filter((_, index) => index % LANES === lane)) {
      const [answer] = await sendRaw({ port, ca: certificate.rootPem }, [request])
      const { status = 0 } = answer ?? {}
      statuses[status] = (statuses[status] ?? 0) + 1
    }
  })
  await Promise.all(lanes)
  return statuses
}

t.jobs = 4
const lacksProxy = missingProgram('nginx')
for (const { title, lacks, isFrail, start } of SERVERS)
  t.test(title, { skip: lacksProxy || lacks, buffered: true }, async (t) => {
    const server = await start(t)
    const yaml = yamlFor(server.port, { path: server.path })
    const gate = await startGate(t, 'nginx', { yaml, appPort: server.port })
    let session: string | undefined
    for (const mode of isFrail ? (['legacy'] as const) : (['legacy', 'auto'] as const)) {
      const reader = await connect(t, gate, READER, mode)
      session ??= reader.session
      const { content } = await reader.client.callTool({ name: 'read_note' })
      t.match(content, [{ text: 'a note' }], `${mode}: an honest call`)
      await t.rejects(reader.client.callTool({ name: 'delete_note' }), `${mode}: a refused one`)
    }
    const attempts = Object.values({ ...ATTEMPTS, ...BODY_ATTEMPTS })
    const requests = attempts
      .flatMap((attempt) => requestsOf(attempt, READER, session))
      .map((request) => (session === undefined ? request : withSession(request, session)))
    const others = requests.filter((request) => !endsSession(request))
    const statuses = await sendAll(gate, others)
    t.ok((statuses[400] ?? 0) > others.length / 2, `answered with ${JSON.stringify(statuses)}`)
    const { client } = await connect(t, gate, WRITER, 'legacy')
    t.match(await client.callTool({ name: 'delete_note' }), { content: [{ text: 'deleted' }] })
    t.equal(server.count('delete_note'), 1, 'it has run for who may call it, and for nobody else')
    await sendAll(gate, requests.filter(endsSession))
    t.equal(server.count('delete_note'), 1, 'not when a session ends')
  })
