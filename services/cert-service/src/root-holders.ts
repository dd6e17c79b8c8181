import { hash } from 'node:crypto'
import type { RootHolder } from '@gatehouse/cert-store/port'
import { DAY, toTime } from '@gatehouse/issuance/times'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    readonly rootHolders: ReturnType<typeof rootHoldersOf>
  }
}

const MINUTE = 60_000
const GONE_AFTER = 30 * DAY
/** Holders that are written at once. The others are noted when they come again. */
const MAX_FRESH = 1_000
/** The addresses among them that have fetched the roots: those who ask without a key leave room for callers. */
const MAX_FETCHED = 500
/** What a client says of the roots that it trusts. */
const ROOTS = /^[0-9a-f]{16}(?:,[0-9a-f]{16}){0,63}$/
const LOST = 'it was not stored who trusts which root'

/** The beginning of the SHA-256 of a root, as clients name it. */
const idOf = (root: Uint8Array) => hash('sha256', root).slice(0, 16)

const textOf = ({ caller, address, seenAt }: RootHolder) =>
  `${caller} (${address}, last seen ${toTime(seenAt)})`

function rootHoldersOf({ store, ca, clock }: Pick<FastifyInstance, 'store' | 'ca' | 'clock'>) {
  let fresh = new Map<string, RootHolder>()
  function note(caller: string, address: string, roots: readonly string[]): void {
    // Both are to be trusted while one takes the place of the other.
    const isRolling = ca.roots().length > 1
    if (!isRolling || fresh.size >= (caller ? MAX_FRESH : MAX_FETCHED)) return
    fresh.set(`${caller} ${address}`, { caller, address, roots, seenAt: clock.now() })
  }
  async function flush(): Promise<void> {
    const holders = [...fresh.values()]
    fresh = new Map()
    if (holders.length > 0) await store.addRootHolders(holders)
  }
  return {
    /** Notes, while the root is replaced, what a caller says of the roots that it trusts; written later. */
    noteTrust(caller: string, address: string, roots: string): void {
      if (ROOTS.test(roots)) note(caller, address, roots.split(','))
    },
    /** Notes, while the root is replaced, that all roots were fetched; written later. */
    noteFetch: (address: string) => note('', address, ca.roots().map(idOf)),
    flush,
    /**
     * Finds who says that it lacks a root, and the addresses that have fetched it, both seen since then. What has said
     * nothing for 30 days is gone, such as pods, jobs and addresses of before.
     */
    async find(root: Uint8Array, since: number) {
      await flush()
      const holders = await store.listRootHolders(since)
      const isHeld = ({ roots }: RootHolder) => roots.includes(idOf(root))
      const isLacking = ({ caller, seenAt }: RootHolder) =>
        caller !== '' && seenAt > clock.now() - GONE_AFTER
      return {
        lacking: holders.filter((holder) => isLacking(holder) && !isHeld(holder)).map(textOf),
        fetchedFrom: holders
          .filter((holder) => !holder.caller && isHeld(holder))
          .map(({ address }) => address),
      }
    },
  }
}

/** Keeps which roots the callers trust, as they say in a header, and which addresses have fetched the roots. */
export const rootHolders = fp(
  async (app: FastifyInstance) => {
    const holders = rootHoldersOf(app)
    app.decorate('rootHolders', holders)
    app.ca.roll.rootHolders = holders
    app.loops.add(MINUTE, () => holders.flush(), LOST, 'warn')
    app.addHook('onClose', async () => {
      await holders.flush().catch((err: unknown) => app.log.warn({ err }, LOST))
    })
  },
  {
    name: 'cert-service/root-holders',
    dependencies: [
      'cert-service/store',
      'cert-service/issuers',
      'service-kit/clock',
      'service-kit/loops',
    ],
  },
)
