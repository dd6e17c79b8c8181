import { hash } from 'node:crypto'
import { getServers } from 'node:dns'
import { type Clock, createTurns, orAborted, sleep } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { type Static, Type } from 'typebox'
import { type Ask, ask, type DnsServer, parseResolver, parseServer } from '../dns/exchange.ts'
import { Lookup, type Target } from '../dns/lookup.ts'
import { awaitPropagation } from '../dns/propagation.ts'
import { type ChooseDnsProvider, type DnsRecord, Option } from '../dns/providers/provider.ts'
import { AcmeError } from '../errors.ts'
import type { ChallengeTask, Solver } from './solver.ts'

/** The wait until the CA can see a record. */
export const PropagationSchema = Type.Object({
  check: Type.Enum(['authoritative', 'resolvers', 'none'], {
    default: 'authoritative',
    description:
      'Which servers must have the record: every name server of its zone, every one of `resolvers` ' +
      '(for split-horizon DNS), or none (only `wait`).',
  }),
  resolvers: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      maxItems: 8,
      description:
        'Recursive resolvers: IP addresses, each with an optional port. Default: those of the system.',
    }),
  ),
  timeout: Option.Duration('Longest wait for the record to appear.', '2m'),
  wait: Option.Duration('Fixed wait after that.', '0s'),
})

export type Propagation = Static<typeof PropagationSchema>

export interface Dns01Options {
  readonly providers: ChooseDnsProvider
  readonly propagation: Propagation
  readonly clock: Clock
  /** Asks one name server. Replaceable for tests. */
  readonly ask?: Ask
  /** Port of name servers; default 53. */
  readonly port?: number
}

/**
 * Creates the solver for dns-01 (RFC 8555 section 8.4). It puts the record at the end of the CNAME chain
 * of `_acme-challenge.<name>`, where there may be others.
 * @throws AcmeError `ACME_DNS_*`, from its methods
 */
export function createDns01(options: Dns01Options): Solver {
  const { providers, propagation, clock, port = 53 } = options
  const lookup = new Lookup({
    ask: options.ask ?? ask,
    resolvers: propagation.resolvers?.map(readResolver) ?? systemResolvers(),
    port,
    authoritative: propagation.check === 'authoritative',
    clock,
  })
  // Providers read a record set and then write it.
  const inTurn = createTurns()

  return {
    type: 'dns-01',
    // The CNAME may change before the clean-up.
    locate: async (task, signal) => (await lookup.follow(answerTo(task).name, signal)).name,
    async present(task, signal) {
      const { name, text } = answerTo(task)
      const target = await lookup.follow(task.place ?? name, signal)
      const record = recordOf(task, target.name)
      const turn = inTurn(target.name, async () => {
        signal.throwIfAborted()
        await providerOf(task).present(record, signal)
      })
      await orAborted(turn, signal)
      await settle(target, text, signal)
    },
    async cleanUp(task, signal) {
      const target = task.place ?? (await lookup.follow(answerTo(task).name, signal)).name
      await inTurn(target, () => providerOf(task).cleanUp(recordOf(task, target), signal))
    },
    async check({ text }, signal) {
      const host = text.replace(/^\*\./, '')
      const provider = providers(parseName(host))
      const { name: target } = await lookup.follow(`_acme-challenge.${host}`, signal)
      await provider.check?.(target, signal)
      return { target, isProviderChecked: provider.check !== undefined }
    },
  }

  function providerOf({ identifier }: ChallengeTask) {
    return providers(parseName(identifier.value))
  }

  async function settle(target: Target, text: string, signal: AbortSignal): Promise<void> {
    if (propagation.check !== 'none')
      await awaitPropagation(target, text, { clock, timeoutMs: propagation.timeout, signal })
    if (propagation.wait > 0) await sleep(clock, propagation.wait, signal)
  }
}

function answerTo({ identifier, keyAuthorization }: ChallengeTask) {
  const text = hash('sha256', keyAuthorization, 'base64url')
  return { name: `_acme-challenge.${identifier.value}`, text }
}

function recordOf(task: ChallengeTask, name: string): DnsRecord {
  const { identifier, token, keyAuthorization } = task
  return { name, value: answerTo(task).text, domain: identifier.value, token, keyAuthorization }
}

/** The resolvers of the system, except link-local ones, which need more than an address. */
const systemResolvers = (): DnsServer[] => getServers().flatMap((text) => parseServer(text) ?? [])

/** @throws AcmeError `ACME_DNS_LOOKUP` */
function readResolver(text: string): DnsServer {
  const server = parseResolver(text)
  if (server) return server
  throw new AcmeError('ACME_DNS_LOOKUP', `the resolver ${JSON.stringify(text)} is no IP address`)
}
