// `npm start`: the complete demo.
import { startQuickstart } from './quickstart.ts'
import { screen } from './screen.ts'
import { PORT_NAMES, readSettings } from './settings.ts'

try {
  const settings = readSettings(process.env)
  await startQuickstart(settings, (name) => process.stdout.write(`  ${name} is ready\n`))
  process.stdout.write(screen(settings))
  process.once('exit', (code) => code === 0 && process.stdout.write('Gatehouse has stopped.\n'))
} catch (error) {
  process.stderr.write(`gatehouse: ${explain(error as Error)}\n`)
  process.exitCode = 1
}

function explain(error: NodeJS.ErrnoException): string {
  const cause = (error.cause ?? error) as NodeJS.ErrnoException & { readonly port?: number }
  if (cause.syscall === 'listen' && cause.port !== undefined)
    return busyPort(cause.port, cause.code)
  return cause.path === undefined ? error.message : `cannot write ${cause.path} (${cause.code})`
}

function busyPort(port: number, code = ''): string {
  const { env } = readSettings(process.env)
  const name = PORT_NAMES.find((name) => env[name] === String(port))
  return `cannot listen on port ${port} (${code}); choose another port: ${name}=${port + 10} npm start`
}
