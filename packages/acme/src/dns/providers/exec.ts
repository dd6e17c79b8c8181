import { Type } from 'typebox'
import { programOptions, runProgram, Variables } from './program.ts'
import { type CreateDnsProvider, type DnsRecord, defineOptions, Option } from './provider.ts'

export const ExecSchema = defineOptions('exec', {
  command: Type.Array(Option.Text('The program or one of its arguments.'), {
    minItems: 1,
    description:
      'Program with its first arguments, run without a shell. `present` or `cleanup`, the name and the value are appended.',
  }),
  env: Variables('Environment of the program, in addition to PATH, HOME and TMPDIR.'),
  mode: Type.Enum(['default', 'raw'], {
    default: 'default',
    description: '`raw` appends `--`, the domain, the token and the key authorization instead.',
  }),
  ...programOptions,
})

/** Runs a program with the arguments that lego's `exec` provider uses. */
export const createExec: CreateDnsProvider<typeof ExecSchema> = (config) => {
  const { mode, command } = config
  const secrets = config.env.map(({ value }) => value)

  async function run(action: string, record: DnsRecord, signal: AbortSignal): Promise<void> {
    const { name, value, domain, token, keyAuthorization } = record
    const args = mode === 'raw' ? ['--', domain, token, keyAuthorization] : [`${name}.`, value]
    await runProgram({ ...config, command: [...command, action, ...args], secrets }, signal)
  }

  return {
    present: (record, signal) => run('present', record, signal),
    cleanUp: (record, signal) => run('cleanup', record, signal),
  }
}
