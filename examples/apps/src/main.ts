// Runs one of the apps: `main.ts app` or `main.ts admin`.
import { createServer } from 'node:http'
import { APPS, type AppName, createApp } from './app.ts'

const { HOST = '127.0.0.1', PORT = '8080', GATEHOUSE_HTTPS_PORT = '443' } = process.env
const name = process.argv[2] as AppName

if (!Object.hasOwn(APPS, name)) {
  process.stderr.write(`Which app? One of: ${Object.keys(APPS).join(', ')}\n`)
  process.exit(2)
}
const app = createApp(name, `gatehouse.localhost:${GATEHOUSE_HTTPS_PORT}`)
const server = createServer(app).listen(Number(PORT), HOST)
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    server.close()
    server.closeAllConnections()
  })
