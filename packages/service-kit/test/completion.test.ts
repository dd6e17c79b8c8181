import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { completionScript } from '../src/completion.ts'

const SYNTAX = {
  program: 'gatehouse-certs',
  version: '1.2.3',
  summary: 'does things',
  commands: [
    {
      usage: 'get NAME...',
      group: 'A:',
      summary: "fetch what's due",
      options: { '--out DIR': 'where', '--watch': 'go on' },
      examples: [],
    },
    { usage: 'ca detach-root FILE', group: 'B:', summary: 'move', examples: [] },
    { usage: 'ca show', group: 'B:', summary: 'show', examples: [] },
  ],
}

t.test('a real bash completes commands, options and words of a command', async (t) => {
  const file = join(t.testdir({}), 'completion.bash')
  writeFileSync(file, completionScript('bash', SYNTAX))
  const complete = (...words: string[]) => {
    const line = `source '${file}'; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gatehouse_certs; echo "\${COMPREPLY[*]}"`
    return execFileSync('bash', ['-uc', line, 'bash', 'gatehouse-certs', ...words], {
      encoding: 'utf8',
    }).trim()
  }
  t.equal(complete(''), 'get ca help')
  t.equal(complete('c'), 'ca')
  t.equal(complete('ca', ''), 'detach-root show')
  t.equal(complete('ca', 'd'), 'detach-root')
  t.equal(complete('get', '--'), '--out --watch --help')
  t.equal(complete('get', '$(touch evaluated)', '--w'), '--watch', 'evaluates nothing')
  t.equal(complete('get', ''), '', 'names of files, by bash')
})

t.test('fish and zsh', async (t) => {
  const fish = completionScript('fish', SYNTAX)
  t.match(fish, "-a get -d 'fetch what\\'s due'\n")
  t.match(fish, "-n '__fish_seen_subcommand_from get' -l out -r -d 'where'")
  t.match(fish, "-n '__fish_seen_subcommand_from ca' -a detach-root -d 'move'")
  t.match(completionScript('zsh', SYNTAX), /^autoload -U \+X bashcompinit/)
  t.throws(() => completionScript('tcsh', SYNTAX), { message: /choose bash, zsh or fish/ })
})
