import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'

/** Tells whether a store is still in the files that it was opened in. */
export interface OpenFiles {
  areInPlace(): Promise<boolean>
}

/** To be called right after a store was opened: its file, and the log beside it once that is there. */
export function rememberFiles(file: string): OpenFiles {
  const known = new Map<string, string>()
  for (const path of [file, `${file}-wal`]) {
    const stats = statSync(path, { throwIfNoEntry: false })
    if (stats) known.set(path, idOf(stats))
  }
  return {
    async areInPlace() {
      for (const [path, id] of known) {
        const stats = await stat(path).catch(() => undefined)
        if (!stats || idOf(stats) !== id) return false
      }
      return true
    },
  }
}

const idOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev} ${ino}`
