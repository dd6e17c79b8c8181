import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { externalAccountsOf } from './external-accounts.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly externalAccounts: ReturnType<typeof externalAccountsOf>
    /** Resolves when what belongs to callers is as the configuration in effect has them. */
    readonly callersFollowed: () => Promise<void>
  }
}

const actorOf = (caller: string) => `psk:${caller}`

/**
 * Follows changes of API keys in the configuration: what a caller has goes along with a new name, and it is written
 * down and told which accounts have ended with a value. Requests do not wait for it: they look at the keys themselves.
 */
export const callerChanges = fp(
  async (app: FastifyInstance) => {
    const { callers, keyring, store } = app
    const secret = keyring.derive('acme', 'external accounts')
    app.decorate('externalAccounts', externalAccountsOf(secret, store.acme, callers))
    let followed = Promise.resolve()
    const follow = () => {
      followed = followed
        .then(() => rename(app))
        .then(() => noteEnded(app))
        .catch((err: unknown) =>
          app.log.warn({ err }, 'changed API keys were not applied to ACME accounts: reload again'),
        )
      return followed
    }
    app.decorate('callersFollowed', () => followed)
    app.addHook('onReady', follow)
    app.onReload(() => () => void follow())
    app.addHook('onClose', () => followed)
  },
  {
    name: 'cert-service/caller-changes',
    dependencies: [
      '@gatehouse/auth-core',
      'cert-service/issuance',
      'cert-service/store',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)

/** Again at each start, as another replica may still have written the former name. */
async function rename({ callers, store, callerLimits }: FastifyInstance): Promise<void> {
  for (const [former, present] of callers.renamed()) {
    await store.acme.renameCaller(former, present, actorOf)
    await callerLimits.rename(actorOf(former), actorOf(present))
  }
}

/** An end is written down once, and how often it was found: the configuration says it, and replicas may have others. */
async function noteEnded({ externalAccounts, store, clock, log }: FastifyInstance): Promise<void> {
  const bindings = await store.acme.listBindings()
  const ended = bindings.filter((binding) => !externalAccounts.callerOf(binding))
  const entries = ended.map(({ caller, boundBy, accounts }) => ({
    ...{ at: clock.now(), action: 'acme-account-end' as const, actor: 'system', names: [] },
    detail: `of ${caller}, ${accounts} in all: the API key that has bound them is gone`,
    key: `acme-account-end ${boundBy} ${caller}`,
  }))
  await store.addAudit(entries)
  if (entries.length === 0) return
  const accounts = ended.reduce((sum, binding) => sum + binding.accounts, 0)
  const cure =
    'take over those of your machines by `gatehouse-certs acme-accounts --adopt CALLER --account ID`'
  log.warn({ accounts }, `ACME accounts have ended with the API keys that have bound them: ${cure}`)
}
