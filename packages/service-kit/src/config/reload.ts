import { watchFiles } from '../files.ts'

/** A configuration as it was loaded. */
interface Loaded<Config> {
  readonly value: Config
  readonly secretFiles: readonly string[]
}

export interface ReloadOptions<Config extends object> {
  readonly loaded: Loaded<Config>
  load(): Promise<Loaded<Config>>
  /** Takes up what can change while the service runs. */
  apply(config: Config): Promise<void>
  /** Sections that are read at start only. */
  readonly readOnce: readonly (keyof Config & string)[]
  readonly log: {
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

/**
 * Makes the function that takes up a changed configuration, and calls it itself when a file of a
 * secret changes. It rejects, and changes nothing, when the new configuration has a fault.
 */
export function watchConfig<Config extends object>({
  loaded,
  load,
  apply,
  readOnce,
  log,
}: ReloadOptions<Config>): { reload(): Promise<void>; close(): void } {
  async function reload(): Promise<void> {
    const { value } = await load()
    await apply(value)
    const sections = readOnce.filter(
      (key) => JSON.stringify(loaded.value[key]) !== JSON.stringify(value[key]),
    )
    if (sections.length > 0) log.warn({ sections }, 'changes that take a restart')
  }
  const { close } = watchFiles(loaded.secretFiles, () => {
    reload().catch((error) => log.error({ err: error }, 'changed secrets could not be taken up'))
  })
  return { reload, close }
}
