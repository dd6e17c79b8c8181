import type { CommandSyntax, ProgramSyntax } from '../../packages/service-kit/src/command-line.ts'
import { anchorOf } from './anchors.ts'

/** The commands of a program, each with a link to its section. */
export function contentsOf({ program, commands }: ProgramSyntax<CommandSyntax>): string {
  const links = commands.map(({ usage }) => {
    const [name = usage] = /^[a-z][a-z\d -]*\b/.exec(usage) ?? []
    return `[${name.trim()}](#${anchorOf(`${program} ${usage}`)})`
  })
  return `- [${program}](#${anchorOf(program)}): ${links.join(', ')}`
}

/** Renders the section of a program in Markdown: what it does, and each command with its options and examples. */
export function renderCommands({ program, summary, commands }: ProgramSyntax<CommandSyntax>) {
  const sections = commands.map(({ usage, summary, options = {}, examples }) => {
    const items = Object.entries(options).map(([flags, help]) => `- \`${flags}\`: ${help}\n`)
    const list = items.length === 0 ? '' : `\n${items.join('')}`
    return `### ${program} ${usage}\n\n${sentence(summary)}\n${list}\n\`\`\`sh\n${examples.join('\n')}\n\`\`\`\n`
  })
  return `## ${program}\n\n${sentence(summary)}\n\n${sections.join('\n')}`
}

const sentence = (summary: string) => `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`
