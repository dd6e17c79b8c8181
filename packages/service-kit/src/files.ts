import { statSync, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'

const POLL_MS = 60_000

/**
 * Calls `onChange` when a file has changed or was replaced. Folders are watched, so a symbolic link
 * that is swapped counts, as Kubernetes does it; a look every minute finds what no event tells.
 */
export function watchFiles(
  paths: readonly string[],
  onChange: () => void,
  options: { debounceMs?: number } = {},
): { close(): void } {
  const { debounceMs = 200 } = options
  let seen = fingerprint(paths)
  let timer: NodeJS.Timeout | undefined

  function compare(): void {
    timer = undefined
    const now = fingerprint(paths)
    if (now === seen) return
    seen = now
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
