import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Static } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { programOptions, runProgram, Variables } from './program.ts'
import { type CreateDnsProvider, type DnsRecord, defineOptions, Option } from './provider.ts'

export const AcmeshSchema = defineOptions('acmesh', {
  path: Option.FilePath('Folder of acme.sh, with `acme.sh` and the scripts in `dnsapi`.'),
  script: Option.Text('Name of the script, such as `dns_hetzner`.', {
    pattern: '^dns_[a-z0-9_]{1,50}$',
  }),
  credentials: Variables('Variables of the script, as its first lines list them.'),
  ...programOptions,
})

/**
 * Reads everything from standard input, so that it appears in no argument list or environment, and
 * passes it to the script as variables and arguments, so that bash never runs it as code. Sourced
 * without arguments, acme.sh defines its functions and prints its help. The functions that would
 * save the credentials to a file are replaced by empty ones.
 */
const WRAPPER = `
IFS= read -r -d '' gatehouse_path
IFS= read -r -d '' gatehouse_script
IFS= read -r -d '' gatehouse_action
IFS= read -r -d '' gatehouse_name
IFS= read -r -d '' gatehouse_value
while IFS= read -r -d '' gatehouse_key && IFS= read -r -d '' gatehouse_secret; do
  printf -v "$gatehouse_key" %s "$gatehouse_secret"
done
unset gatehouse_key gatehouse_secret
exec </dev/null
. "$gatehouse_path/acme.sh" >/dev/null
. "$gatehouse_path/dnsapi/$gatehouse_script.sh"
_saveaccountconf() { :; }
_saveaccountconf_mutable() { :; }
_savedomainconf() { :; }
_clearaccountconf() { :; }
_clearaccountconf_mutable() { :; }
_cleardomainconf() { :; }
"\${gatehouse_script}_\${gatehouse_action}" "$gatehouse_name" "$gatehouse_value"
`

type AcmeshConfig = Static<typeof AcmeshSchema>

/** Runs the dnsapi scripts of an installed acme.sh. */
export const createAcmesh: CreateDnsProvider<typeof AcmeshSchema> = (config) => {
  const { path, script, credentials, user, timeout } = config
  const secrets = credentials.map(({ value }) => value)
  const variables = credentials.flatMap(({ name, value }) => [name, value])
  async function run(action: 'add' | 'rm', { name, value }: DnsRecord, signal: AbortSignal) {
    await checkCredentials(config)
    const fields = [path, script, action, name, value, ...variables]
    const stdin = fields.map((field) => `${field}\0`).join('')
    const command = ['/bin/bash', '--noprofile', '--norc', '-c', WRAPPER]
    await runProgram({ command, stdin, secrets, user, timeout }, signal)
  }
  return {
    present: (record, signal) => run('add', record, signal),
    cleanUp: (record, signal) => run('rm', record, signal),
  }
}

/** The list of options in a script: one variable at the start of each line. */
const OPTIONS = /^ *Options\w*:\n((?: +\S.*\n)+)/gm

/** Refuses variables that do not occur in the script, because it would silently ignore a typo. */
async function checkCredentials({ path, script, credentials }: AcmeshConfig): Promise<void> {
  const file = join(path, 'dnsapi', `${script}.sh`)
  const text = await readFile(file, 'utf8').catch((cause) => {
    throw new AcmeError('ACME_DNS_PROVIDER', `${file} cannot be read`, { cause })
  })
  const words = new Set(text.split(/\W+/))
  const unknown = credentials.find(({ name }) => !words.has(name))
  if (!unknown) return
  const accepted = [...text.matchAll(OPTIONS)]
    .flatMap(([, lines = '']) => lines.trimEnd().split('\n'))
    .map((line) => line.trim().split(' ', 1)[0])
  const instead = accepted.length > 0 ? `, but ${accepted.join(', ')}` : ''
  throw new AcmeError('ACME_DNS_CREDENTIALS', `${script} does not take ${unknown.name}${instead}`)
}
