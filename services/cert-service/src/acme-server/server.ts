import { Nonces } from '@gatehouse/acme/server'
import type { CertificateRecord, ServedAccount, Store } from '@gatehouse/cert-store/port'
import { compileNetworks, type IpAddress } from '@gatehouse/net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { ownNames } from '../lifecycle/own-tls.ts'
import { clientOf } from '../policy/authorize.ts'
import { Prover, type ProverOptions } from './proofs.ts'

type AcmeConfig = CertServiceConfig['acme']

declare module 'fastify' {
  interface FastifyInstance {
    readonly acme: AcmeServer
    /** The options for ACME clients of the configuration in effect. */
    readonly acmeOptions: ReturnType<typeof optionsOf>
  }
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** Names of whichever machine asks. */
const LOOPBACK = ['localhost', '127.0.0.1', '::1']
/** Accounts whose use is noted at a time. */
const MAX_USED = 10_000

class AcmeServer {
  readonly nonces: Nonces
  /** Whether a host is this service. */
  readonly isOwn: (name: string) => boolean
  readonly prover: Prover
  readonly #store: Pick<Store, 'acme' | 'setRenewalInfoRead'>
  readonly #clock: FastifyInstance['clock']
  #used = new Map<string, Pick<ServedAccount, 'usedAt' | 'client' | 'remoteAddress'>>()
  /** The times at which clients asked when to renew certificates, by the ids of these. */
  #asked = new Map<number, number>()

  constructor(
    { keyring, store, clock }: FastifyInstance,
    { prover, isOwn }: Pick<AcmeServer, 'prover' | 'isOwn'>,
  ) {
    this.isOwn = isOwn
    // By the run time, which the replicas share and no clock that is set back can change.
    const runTime = { now: () => store.runTime() }
    this.nonces = new Nonces({ key: keyring.derive('acme', 'nonces'), clock: runTime })
    this.prover = prover
    this.#store = store
    this.#clock = clock
  }

  /** Notes that an account is used; written later. */
  noteUse({ id }: ServedAccount, request: FastifyRequest): void {
    if (this.#used.size >= MAX_USED && !this.#used.has(id)) return
    const usedAt = request.server.clock.now()
    this.#used.set(id, { usedAt, client: clientOf(request) ?? null, remoteAddress: request.ip })
  }

  /** Notes, once an hour, that a client asks when to renew its certificate; written later. */
  noteRenewalInfo({ id, account, renewalInfoReadAt }: CertificateRecord): void {
    const now = this.#clock.now()
    const isKnown = now - (renewalInfoReadAt ?? 0) < HOUR
    if (account && !isKnown && this.#asked.size < MAX_USED) this.#asked.set(id, now)
  }

  async flush(): Promise<void> {
    const [used, renewalReadings] = [this.#used, this.#asked]
    this.#used = new Map()
    this.#asked = new Map()
    if (used.size > 0) await this.#store.acme.touchAccounts(used)
    await this.#store.setRenewalInfoRead(renewalReadings)
  }
}

export interface AcmeServerOptions extends Pick<ProverOptions, 'ports'> {
  readonly acme: AcmeConfig
  readonly server: Parameters<typeof ownNames>[0]
}

/** The clients of open networks register without an external account. */
function optionsOf({ open = [], terms, profiles = {} }: AcmeConfig) {
  return { isOpen: compileNetworks(open), terms, profiles: new Map(Object.entries(profiles)) }
}

/** The state of the ACME server: nonces, keys of external accounts, and who used which account when. */
export const acmeServer = fp<AcmeServerOptions>(
  async (app: FastifyInstance, { acme, server: acmeServer, ports }) => {
    await app.decorateReloaded('acmeOptions', { acme }, ({ acme }) => optionsOf(acme))
    const names = new Set(ownNames(acmeServer).map(({ text }) => text))
    const isOwn = (name: string) => names.has(name)
    const isOpen = (address: IpAddress) => app.acmeOptions.isOpen(address)
    const isReached = (name: string) => isOwn(name) && !LOOPBACK.includes(name)
    const prover = new Prover({ isOpen, isOwn: isReached, ports })
    const server = new AcmeServer(app, { prover, isOwn })
    app.decorate('acme', server)
    const lost = 'the use of ACME accounts was not stored'
    app.loops.add(MINUTE, () => server.flush(), lost, 'warn')
    app.addHook('onClose', async () => {
      await server.flush().catch((err: unknown) => app.log.warn({ err }, lost))
      await prover.close()
    })
  },
  {
    name: 'cert-service/acme-server',
    dependencies: [
      'cert-service/store',
      'service-kit/loops',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)
