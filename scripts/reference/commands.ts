import type { CommandSyntax, ProgramSyntax } from '../../packages/service-kit/src/command-line.ts'

/** Renders the section of a program in Markdown: what it does, and each command with its options and examples. */
export function renderCommands({ program, summary, commands }: ProgramSyntax<CommandSyntax>) {
  const sections = commands.map(({ usage, summary, options = {}, examples }) => {
    const rows = Object.entries(options).map(
      ([flags, help]) => `| \`${flags}\` | ${help.replaceAll('|', '\\|')} |\n`,
    )
    const table = rows.length === 0 ? '' : `\n| Option | Meaning |\n| --- | --- |\n${rows.join('')}`
    return `### ${program} ${usage}\n\n${sentence(summary)}\n${table}\n\`\`\`sh\n${examples.join('\n')}\n\`\`\`\n`
  })
  return `## ${program}\n\n${sentence(summary)}\n\n${sections.join('\n')}`
}

const sentence = (summary: string) => `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`
