import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { requireTrusted } from '../../src/trusted-folder.ts'

const ACTS = {
  read: (path: string) => readFileSync(path, 'utf8'),
  remove: (path: string) => rmSync(path),
  trust: requireTrusted,
} as const

/** Does something with a path, and gives what came of it: a text, `done`, or what the error says. */
export function act(verb: keyof typeof ACTS, path: string): string {
  try {
    return ACTS[verb](path) ?? 'done'
  } catch (error) {
    const { message, action } = error as { message: string; action?: string }
    return [message, action].filter(Boolean).join('. ')
  }
}

/** The same by another user with each path, in a process of theirs; root may start one. */
export async function actAs(
  user: number,
  verb: keyof typeof ACTS,
  ...paths: readonly string[]
): Promise<readonly string[]> {
  const args = [fileURLToPath(import.meta.url), `${user}`, verb, ...paths]
  const child = spawn(process.execPath, ['--conditions=@gatehouse/source', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {},
  })
  const [said] = await Promise.all([text(child.stdout), once(child, 'close')])
  return JSON.parse(said)
}

if (import.meta.main) {
  const [user = '', verb = '', ...paths] = process.argv.slice(2)
  // The tree of the tests may be root's alone.
  process.setgroups?.([])
  process.setgid?.(Number(user))
  process.setuid?.(Number(user))
  const said = paths.map((path) => act(verb as keyof typeof ACTS, path))
  process.stdout.write(JSON.stringify(said))
}
