import { type CommandSyntax, type ProgramSyntax, UsageError } from './command-line.ts'

type Syntax = ProgramSyntax<CommandSyntax>

/** The script that completes the commands and options of a program, and the names of files. */
export function completionScript(shell: string, syntax: Syntax): string {
  if (shell === 'bash') return bash(syntax)
  if (shell === 'zsh') return `autoload -U +X bashcompinit && bashcompinit\n${bash(syntax)}`
  if (shell === 'fish') return fish(syntax)
  throw new UsageError(`no completion for "${shell}": choose bash, zsh or fish`)
}

/** The words of each command, and its options. */
function commandsOf({ commands }: Syntax) {
  return commands.map(({ usage, summary, options = {} }) => ({
    words: usage.split(' ').filter((part) => /^[a-z]/.test(part)),
    summary,
    options: Object.entries(options).map(([flags, help]) => {
      const [flag = '', value] = flags.split(' ')
      return { flag, takesValue: value !== undefined, help }
    }),
  }))
}

/** The script for bash. It looks words up and runs nothing, so that no text of the line is evaluated. */
function bash(syntax: Syntax): string {
  const commands = commandsOf(syntax)
  const name = `_${syntax.program.replaceAll('-', '_')}`
  const first = [...new Set(commands.map(({ words }) => words[0] ?? ''))]
  const cases = first.map((word) => {
    const matches = commands.filter(({ words }) => words[0] === word)
    const second = matches.flatMap(({ words }) => words.slice(1))
    const options = new Set(matches.flatMap((command) => command.options.map(({ flag }) => flag)))
    const flags = [...options, '--help'].join(' ')
    return `    ${word}) seconds="${second.join(' ')}" options="${flags}" ;;`
  })
  return `${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" seconds="" options="--help --version" words=""
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  if [[ $current == -* ]]; then words="$options"
  elif [[ $COMP_CWORD == 1 ]]; then words="${first.join(' ')} help"
  elif [[ $COMP_CWORD == 2 ]]; then words="$seconds"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F ${name} ${syntax.program}
`
}

function fish(syntax: Syntax): string {
  const { program } = syntax
  const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const lines = commandsOf(syntax).flatMap(({ words: [first = '', second], summary, options }) => {
    const within = `-n ${quote(`__fish_seen_subcommand_from ${second ?? first}`)}`
    return [
      `complete -c ${program} -n __fish_use_subcommand -a ${first} -d ${quote(second ? '' : summary)}`,
      ...(second
        ? [
            `complete -c ${program} -n ${quote(`__fish_seen_subcommand_from ${first}`)} -a ${second} -d ${quote(summary)}`,
          ]
        : []),
      ...options.map(
        ({ flag, takesValue, help }) =>
          `complete -c ${program} ${within} -l ${flag.slice(2)}${takesValue ? ' -r' : ''} -d ${quote(help)}`,
      ),
    ]
  })
  return `${[...new Set(lines)].join('\n')}\n`
}
