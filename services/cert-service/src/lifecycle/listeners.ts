import { listenForChallenges } from '@gatehouse/issuance/issuers'
import { listenError } from '@gatehouse/service-kit/lifecycle'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Listens for `server.plainHttp` and challenges, before `listen`. @throws ConfigError `CONFIG_LISTEN_FAILED` */
    listenBeside(): Promise<void>
  }
}

export interface ListenersOptions extends Pick<CertServiceConfig, 'server' | 'issuers'> {
  buildPlain(): Promise<FastifyInstance>
}

/** Adds the listeners beside that of the API; they are closed with the app. */
export const listeners = fp<ListenersOptions>(
  async (app: FastifyInstance, { server: { plainHttp }, issuers, buildPlain }) => {
    const opened = new AsyncDisposableStack()
    app.addHook('onClose', async () => opened.disposeAsync())
    app.decorate('listenBeside', async () => {
      if (plainHttp) {
        const plain = await buildPlain()
        opened.defer(() => plain.close())
        await plain.listen(plainHttp).catch((error: unknown) => {
          throw listenError(error, plainHttp)
        })
      }
      const challenges = await listenForChallenges(issuers, app.challenges, app.clock)
      opened.defer(() => challenges.close())
    })
  },
  { name: 'cert-service/listeners', dependencies: ['cert-service/issuers', 'service-kit/clock'] },
)
