// Routes behind API keys, one of which is limited to a scope.
// BACKUP_KEY=… MONITOR_KEY=… node examples/api-key.ts
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'

export async function buildApp(keys: { backup: string; monitor: string }) {
  const app = Fastify()
  await app.register(auth, {
    psk: {
      keys: [
        { name: 'backup', key: keys.backup },
        { name: 'monitor', key: keys.monitor, scopes: ['read'] },
      ],
    },
  })
  app.get('/jobs', { onRequest: app.requireCaller({ scopes: ['read'] }) }, () => [{ id: 1 }])
  app.post('/jobs', { onRequest: app.requireCaller({ scopes: ['write'] }) }, (request) => ({
    startedBy: request.caller.subject,
  }))
  return app
}

if (process.argv[1] === import.meta.filename) {
  const { BACKUP_KEY: backup = '', MONITOR_KEY: monitor = '' } = process.env
  const app = await buildApp({ backup, monitor })
  await app.listen({ port: 3000 })
}
