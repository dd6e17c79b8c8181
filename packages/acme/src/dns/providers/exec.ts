import { type Static, Type } from 'typebox'
import { Text } from '../schema.ts'
import { programOptions, runProgram, Variables } from './program.ts'
import { commonOptions, type DnsProvider, type DnsRecord } from './provider.ts'

export const ExecSchema = Type.Object({
  type: Type.Literal('exec'),
  ...commonOptions,
  command: Type.Array(Text('A program, or an argument of it.'), {
    minItems: 1,
    description:
      'Program with its first arguments; no shell reads them. `present` or `cleanup`, the name and the value follow.',
  }),
  env: Variables('Environment of the program beside PATH, HOME and TMPDIR.'),
  mode: Type.Enum(['default', 'raw'], {
    default: 'default',
    description: '`raw` passes `--`, the domain, the token and the key authorization.',
  }),
  ...programOptions,
})

/** A program of the operator, called as lego calls one. */
export function createExec(config: Static<typeof ExecSchema>): DnsProvider {
  const { mode, env, user, timeout } = config
  const command = config.command as [string, ...string[]]
  const secrets = env.map(({ value }) => value)
  const run = (action: string, record: DnsRecord, signal: AbortSignal) =>
    runProgram(
      {
        command: [...command, action, ...argumentsFor(mode, record)],
        env,
        secrets,
        user,
        timeout,
      },
      signal,
    )
  return {
    present: (record, signal) => run('present', record, signal),
    cleanUp: (record, signal) => run('cleanup', record, signal),
  }
}

function argumentsFor(mode: 'default' | 'raw', record: DnsRecord): string[] {
  const { name, value, domain, token, keyAuthorization } = record
  return mode === 'raw' ? ['--', domain, token, keyAuthorization] : [`${name}.`, value]
}
