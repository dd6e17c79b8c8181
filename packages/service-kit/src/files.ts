import { existsSync, mkdirSync, statSync, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'

const POLL_MS = 60_000

/**
 * Calls `onChange` when a file was changed or replaced. Watches the folders, since Kubernetes swaps
 * symbolic links, and compares the files every minute in case an event is lost.
 */
export function watchFiles(
  paths: readonly string[],
  onChange: () => void,
  options: { debounceMs?: number } = {},
): { close(): void } {
  const { debounceMs = 200 } = options
  let previous = fingerprint(paths)
  let timer: NodeJS.Timeout | undefined

  function compare(): void {
    timer = undefined
    const now = fingerprint(paths)
    if (now === previous) return
    previous = now
    onChange()
  }
  const compareSoon = () => {
    timer ??= setTimeout(compare, debounceMs).unref()
  }
  const folders = [...new Set(paths.map((path) => dirname(resolve(path))))]
  const watchers = folders.map((folder) =>
    watch(folder, { persistent: false }, compareSoon).on('error', compareSoon),
  )
  const poll = setInterval(compare, POLL_MS).unref()
  return {
    close() {
      clearTimeout(timer)
      clearInterval(poll)
      for (const watcher of watchers) watcher.close()
    },
  }
}

function fingerprint(paths: readonly string[]): string {
  return paths
    .map((path) => {
      const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
      return stats ? `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}` : 'none'
    })
    .join(' ')
}

/**
 * Creates a folder and its parents, unless said with mode 0700. An existing folder stays as it is. The `recursive`
 * option of `mkdirSync` never returns where no folder can be created, as below `/proc`.
 *
 * @throws NodeJS.ErrnoException
 */
export function makeFolder(path: string, mode = 0o700): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error
    makeFolder(dirname(path), mode)
    makeFolder(path, mode)
  }
}
