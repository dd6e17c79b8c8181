import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Context, run } from './processes.ts'

interface NamedOptions {
  /** Where its files are; those that statements name are looked for there. */
  readonly folder: string
  /** Of its own files. */
  readonly name: string
  readonly port: number
  /** Whether it follows CNAME records from zone to zone, as a resolver does; default `no`. */
  readonly recursion?: 'yes' | 'no'
  /** Keys and zones, in the words of named.conf. */
  readonly statements: readonly string[]
}

/** Starts BIND on loopback, gone with the test; resolves when it answers. */
export async function startNamed(
  t: Context,
  { folder, name, port, recursion = 'no', statements }: NamedOptions,
): Promise<void> {
  const config = join(folder, `${name}.conf`)
  const options = [
    `directory "${folder}";`,
    `listen-on port ${port} { 127.0.0.1; };`,
    'listen-on-v6 { none; };',
    `pid-file "${join(folder, `${name}.pid`)}";`,
    `session-keyfile "${join(folder, `${name}.session`)}";`,
    `recursion ${recursion}; dnssec-validation no; notify-delay 0; allow-transfer { 127.0.0.0/8; };`,
    'min-refresh-time 1; min-retry-time 1;',
  ]
  const text = [`options { ${options.join('\n')} };`, 'controls { };', ...statements]
  writeFileSync(config, `${text.join('\n')}\n`)
  const child = run(t, 'named', ['-g', '-c', config, '-n', '1'])
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text
    if (/ running$/m.test(log)) resolve()
  })
  child.on('exit', () => reject(new Error(`named ended:\n${log}`)))
  await promise
}
