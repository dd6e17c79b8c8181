import { Nonces } from '@gatehouse/acme/server'
import type { CertificateRecord, ServedAccount } from '@gatehouse/cert-store/port'
import { compileNetworks, type IpAddress } from '@gatehouse/net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { ownNames } from '../lifecycle/own-tls.ts'
import { clientOf } from '../policy/authorize.ts'
import { createProver, type ProverOptions } from './proofs.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly acme: ReturnType<typeof createAcmeServer>
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

function createAcmeServer(
  { keyring, store, clock }: FastifyInstance,
  prover: ReturnType<typeof createProver>,
  isOwn: (name: string) => boolean,
) {
  // By the run time, which the replicas share and no clock that is set back can change.
  const runTime = { now: () => store.runTime() }
  let uses = new Map<string, Pick<ServedAccount, 'usedAt' | 'client' | 'remoteAddress'>>()
  /** The times at which clients asked when to renew certificates, by the ids of these. */
  let readings = new Map<number, number>()
  return {
    nonces: new Nonces({ key: keyring.derive('acme', 'nonces'), clock: runTime }),
    prover,
    /** Whether a host is this service. */
    isOwn,
    /** Notes that an account is used; written later. */
    noteUse({ id }: ServedAccount, request: FastifyRequest): void {
      if (uses.size >= MAX_USED && !uses.has(id)) return
      const client = clientOf(request) ?? null
      uses.set(id, { usedAt: clock.now(), client, remoteAddress: request.ip })
    },
    /** Notes, once an hour, that a client asks when to renew its certificate; written later. */
    noteRenewalInfo({ id, account, renewalInfoReadAt }: CertificateRecord): void {
      const now = clock.now()
      const isKnown = now - (renewalInfoReadAt ?? 0) < HOUR
      if (account && !isKnown && readings.size < MAX_USED) readings.set(id, now)
    },
    async flush(): Promise<void> {
      const [latestUses, latestReadings] = [uses, readings]
      uses = new Map()
      readings = new Map()
      if (latestUses.size > 0) await store.acme.touchAccounts(latestUses)
      await store.setRenewalInfoRead(latestReadings)
    },
  }
}

export interface AcmeServerOptions
  extends Pick<ProverOptions, 'ports'>,
    Pick<CertServiceConfig, 'acme' | 'server'> {}

/** The clients of open networks register without an external account. */
function optionsOf({ open = [], terms, profiles = {} }: CertServiceConfig['acme']) {
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
    const prover = createProver({ isOpen, isOwn: isReached, ports })
    const server = createAcmeServer(app, prover, isOwn)
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
