import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { createDnsProvider, type DnsProvider } from '@gatehouse/acme'
import { createFetch } from '@gatehouse/net'
import { systemClock } from '@gatehouse/service-kit/clock'
import { startNamed } from '../../../../packages/acme/test/integration/named.ts'
import {
  type Context,
  freePort,
  makeFolder,
} from '../../../../packages/acme/test/integration/processes.ts'

/** Of each zone, what it holds beside SOA and NS. An own root: nobody else is ever asked. */
const ZONES: Readonly<Record<string, readonly string[]>> = {
  '.': [],
  'example.com': [
    '@ A 127.0.0.1',
    '* A 127.0.0.1',
    '_acme-challenge.delegated CNAME challenges.example.net.',
  ],
  'example.org': [
    '_acme-challenge.app CNAME 8e5700ea-a4bf-41c7-8a77-e990661dcc6a.acme-dns.example.net.',
  ],
  'example.net': [],
}

const fileOf = (zone: string) => `zone-${zone}`

export interface PublicDns {
  /** The primary name server of every zone, and the one that the CA asks. */
  readonly server: string
  /** Of the TSIG key `gatehouse`. */
  readonly keySecret: string
  readonly provider: DnsProvider
}

/** BIND with the zones of the examples; what may change them is what the example says. */
export async function startPublicDns(t: Context): Promise<PublicDns> {
  const folder = makeFolder(t)
  const port = await freePort()
  const server = `127.0.0.1:${port}`
  const keySecret = randomBytes(32).toString('base64')
  for (const [zone, records] of Object.entries(ZONES)) {
    const head = ['$TTL 60', '@ SOA ns1 hostmaster 1 60 60 3600 1', '@ NS ns1', 'ns1 A 127.0.0.1']
    writeFileSync(join(folder, fileOf(zone)), `${[...head, ...records].join('\n')}\n`)
  }
  const statements = [
    `key "gatehouse" { algorithm hmac-sha256; secret "${keySecret}"; };`,
    ...Object.keys(ZONES).map(
      (zone) =>
        `zone "${zone}" { type primary; file "${fileOf(zone)}"; update-policy { grant gatehouse zonesub TXT; }; };`,
    ),
  ]
  await startNamed(t, { folder, name: 'named', port, recursion: 'yes', statements })
  const fetch = createFetch()
  t.teardown(() => fetch.close())
  const key = { keyName: 'gatehouse', keySecret, algorithm: 'hmac-sha256' } as const
  const provider = createDnsProvider(
    { type: 'rfc2136', server, ...key },
    { fetch, clock: systemClock },
  )
  return { server, keySecret, provider }
}

export interface DnsBridge {
  readonly url: string
  /** What it was asked for: `present NAME`, `cleanup NAME`. */
  readonly changes: string[]
}

type Body = Readonly<Record<string, string>>

/** Speaks httpreq, acme-dns and as much of Cloudflare's API as records take, and changes BIND. */
export async function startDnsBridge(t: Context, { provider }: PublicDns): Promise<DnsBridge> {
  const changes: string[] = []
  /** What Cloudflare knows a record by. */
  const records = new Map<string, { name: string; content: string }>()

  async function change(action: 'present' | 'cleanup', fqdn = '', value = ''): Promise<void> {
    const name = fqdn.replace(/\.$/, '')
    changes.push(`${action} ${name}`)
    const record = { name, value, domain: '', token: '', keyAuthorization: '' }
    await provider[action === 'present' ? 'present' : 'cleanUp'](record, AbortSignal.timeout(5_000))
  }

  const ROUTES: Record<string, (body: Body, url: URL) => Promise<unknown>> = {
    'POST /present': ({ fqdn, value }) => change('present', fqdn, value),
    'POST /cleanup': ({ fqdn, value }) => change('cleanup', fqdn, value),
    'POST /update': async ({ subdomain, txt }) => {
      await change('present', `${subdomain}.acme-dns.example.net`, txt)
      return { txt }
    },
    'GET /zones': async (_, { searchParams }) => {
      const name = searchParams.get('name') ?? ''
      return { success: true, result: name in ZONES ? [{ id: name }] : [] }
    },
    'GET /zones/*/dns_records': async (_, { searchParams }) => {
      const named = [...records].filter(([, { name }]) => name === searchParams.get('name'))
      return { success: true, result: named.map(([id, record]) => ({ id, ...record })) }
    },
    'POST /zones/*/dns_records': async ({ name = '', content = '' }) => {
      await change('present', name, content.replaceAll('"', ''))
      records.set(randomBytes(16).toString('hex'), { name, content })
      return { success: true }
    },
    'DELETE /zones/*/dns_records/*': async (_, { pathname }) => {
      const id = pathname.split('/').at(-1) ?? ''
      const { name, content = '' } = records.get(id) ?? {}
      records.delete(id)
      await change('cleanup', name, content.replaceAll('"', ''))
      return { success: true }
    },
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '', 'http://bridge')
    const path = url.pathname.replace(/^\/zones\/[^/]+/, '/zones/*').replace(/[0-9a-f]{32}$/, '*')
    const body = request.method === 'POST' ? ((await json(request)) as Body) : {}
    const answer = await ROUTES[`${request.method} ${path}`]?.(body, url).catch(String)
    response.statusCode = typeof answer === 'string' ? 500 : 200
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer ?? {}))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, changes }
}
