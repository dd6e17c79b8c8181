import { hash } from 'node:crypto'
import { AcmeError, type Dns01Options } from '@gatehouse/acme'
import {
  FLAG,
  type RecordType,
  type ResourceRecord,
} from '../../../../packages/acme/src/dns/message.ts'
import type { Received, Reply } from '../../../../packages/acme/test/dns/providers/stand-in.ts'
import type { ValidatedChallenge } from '../../../../packages/acme/test/scripted-ca/index.ts'

const ZONES = ['example.test', 'elsewhere.test', 'example.com']
const NAME_SERVER = '192.0.2.1'
const SERVFAIL = 2

/** What may be the matter with the DNS. */
export interface Weather {
  /** Whether anybody can see where a zone begins, and who serves it. */
  readonly zones: 'shown' | 'without name servers' | 'hidden'
  readonly resolver: 'answers' | 'silent' | 'fails'
  /** Of the zones. */
  readonly nameServer: 'answers' | 'silent'
  /** Where the names of challenges lead to. */
  readonly alias: 'none' | 'elsewhere' | 'circle'
}

type Ask = NonNullable<Dns01Options['ask']>

interface DnsWorld {
  readonly ask: Ask
  /** Cloudflare below `/open`, `/empty` and `/closed`, httpreq below `/bridge`. */
  api(request: Received): Reply
  /** How many records are there. */
  count(): number
  /** Whether a CA that looks for itself finds the answer to a challenge. */
  shows(challenge: ValidatedChallenge): boolean
}

/** DNS in memory, with an API that changes it. */
export function createDnsWorld({ zones, resolver, nameServer, alias }: Weather): DnsWorld {
  const texts = new Map<string, Set<string>>()

  const aliasOf = (name: string): string[] => {
    if (alias === 'none' || !name.startsWith('_acme-challenge.')) return []
    return [alias === 'circle' ? name : 'answers.elsewhere.test']
  }
  const isZone = (name: string) => zones !== 'hidden' && ZONES.includes(name)
  const RECORDS: Readonly<Record<RecordType, (name: string) => readonly string[]>> = {
    A: (name) => (name.startsWith('ns.') ? [NAME_SERVER] : []),
    AAAA: () => [],
    CNAME: aliasOf,
    NS: (name) => (isZone(name) && zones === 'shown' ? [`ns.${name}`] : []),
    SOA: (name) => (isZone(name) ? [''] : []),
    TXT: (name) => [...(texts.get(name) ?? [])],
  }

  const ask: Ask = async ({ host }, question, { recursive }) => {
    const state = host === NAME_SERVER ? nameServer : resolver
    if (state === 'silent') throw new AcmeError('ACME_DNS_UNREACHABLE', 'silent')
    const values = state === 'fails' ? [] : RECORDS[question.type](question.name)
    return {
      id: 0,
      flags:
        FLAG.response | (recursive ? 0 : FLAG.authoritative) | (state === 'fails' ? SERVFAIL : 0),
      questions: [question],
      answers: values.map((value) => recordOf(question, value)),
      authorities: [],
      additionals: [],
    }
  }

  function api({ method, url, body }: Received): Reply {
    const [, door = '', what, , , id] = url.pathname.split('/')
    if (door === 'closed') return { status: 403, body: { errors: [{ code: 9109, message: 'no' }] } }
    const { fqdn = '', value = '', name = fqdn, content = value } = body ? JSON.parse(body) : {}
    const at = (url.searchParams.get('name') ?? name).replace(/\.$/, '')
    if (what === 'zones' && !url.pathname.includes('dns_records'))
      return { body: { result: door === 'open' && ZONES.includes(at) ? [{ id: at }] : [] } }
    if (method === 'DELETE' || what === 'cleanup') remove(id ?? idOf(at, content))
    else if (method === 'POST') add(at, content.replaceAll('"', ''))
    const found = [...(texts.get(at) ?? [])].map((text) => ({ id: idOf(at, text), content: text }))
    return { body: { success: true, result: found } }
  }

  function add(name: string, text: string): void {
    texts.set(name, new Set(texts.get(name)).add(text))
  }

  function remove(id: string): void {
    for (const [name, values] of texts)
      for (const text of values) if (idOf(name, text) === id) values.delete(text)
  }

  return {
    ask,
    api,
    count: () => [...texts.values()].reduce((sum, { size }) => sum + size, 0),
    shows({ identifier, keyAuthorization }) {
      const name = `_acme-challenge.${identifier.value}`
      const [target = name] = aliasOf(name)
      return texts.get(target)?.has(hash('sha256', keyAuthorization, 'base64url')) ?? false
    },
  }
}

const idOf = (name: string, text: string): string => hash('sha256', `${name} ${text}`)

const recordOf = (question: { name: string; type: string }, value: string): ResourceRecord => ({
  ...question,
  value,
})
