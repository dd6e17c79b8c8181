import { programSyntax } from '@gatehouse/service-kit/program'
import t from 'tap'
import { PROGRAM as CERTS } from '../../services/cert-service/src/cli/program.ts'
import { PROGRAM as AUTH } from '../../services/forward-auth/src/cli/program.ts'

/** The commands that neither list nor show what a service has: they write files, run, or print a text of their own. */
const WITHOUT_JSON = [
  ...['serve', 'healthcheck', 'check-config', 'schema', 'completion', 'init', 'migrate'],
  ...['get', 'backup', 'restore', 'move', 'rekey', 'ca detach-root', 'acme rollover'],
  ...['docker-reader', 'explain', 'doctor'],
]

const commands = [...programSyntax(CERTS).commands, ...programSyntax(AUTH).commands]
const nameOf = (usage: string) => usage.replace(/ [[A-Z].*$/, '')

/** What an option is about, before what is special about one command. */
const meaningOf = (text: string) => text.replace(/[;(].*$/, '').trim()

t.test('an option means the same in each command', async (t) => {
  const meanings = new Map<string, readonly [flags: string, meaning: string]>()
  for (const { usage, options = {} } of commands)
    for (const [flags, text] of Object.entries(options)) {
      const [flag = ''] = flags.split(' ')
      const option = [flags, meaningOf(text)] as const
      t.strictSame(meanings.get(flag) ?? option, option, `${flag} of ${usage}`)
      meanings.set(flag, option)
    }
  t.ok(meanings.size > 50)
  for (const name of ['--since', '--until', '--at', '--before'])
    t.match(meanings.get(name)?.[0], / TIME$/, name)
  for (const name of ['--ending', '--spread', '--lifetime', '--timeout', '--reload-timeout'])
    t.match(meanings.get(name)?.[0], / DURATION$/, name)
})

t.test('what lists or shows something has --json, and says so in one way', async (t) => {
  for (const { usage, options = {} } of commands) {
    const hasJson = !WITHOUT_JSON.some((name) => nameOf(usage).startsWith(name))
    t.equal('--json' in options, hasJson, usage)
  }
})

t.test('a list says in which order it is', async (t) => {
  const lists = commands.filter(({ summary }) => /^list /.test(summary))
  t.ok(lists.length > 4)
  for (const { usage, summary } of lists) t.match(summary, /the newest last/, usage)
})
